package app

import (
	"urr.guru/pkg/telemetry"
	"urr.guru/services/reward/internal/payout"
)

//nolint:gochecknoglobals // metrics are registered once per process
var circuitOpen = telemetry.Gauge("urr_reward_circuit_open", "1 while this replica calls the provider of a kind only to try it, since calls fail.", "kind")

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
