package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/reward/internal/payout"
)

var circuitOpen = promauto.NewGaugeVec(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_reward_circuit_open", Help: "1 while this replica calls the provider of a kind only to try it, since calls fail.",
}, []string{"kind"})

// circuitGauge returns the function that shows whether the circuit of a kind's provider is open.
func circuitGauge(k payout.Kind) func(open bool) {
	gauge := circuitOpen.WithLabelValues(string(k))
	return func(open bool) {
		gauge.Set(0)
		if open {
			gauge.Set(1)
		}
	}
}
