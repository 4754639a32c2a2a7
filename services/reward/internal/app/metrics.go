package app

import (
	"urr.guru/pkg/telemetry"
	"urr.guru/services/reward/internal/payout"
)

//nolint:gochecknoglobals // metrics are registered once per process
var circuitOpen = telemetry.Gauge("urr_reward_circuit_open", "1 while this replica calls the provider of a kind only to try it, since calls fail.", "kind")

// circuitGauge returns a function that sets the metric of a kind's provider: 1 while its circuit
// breaker is open, else 0.
func circuitGauge(kind payout.Kind) func(open bool) {
	gauge := circuitOpen.WithLabelValues(string(kind))
	return func(open bool) {
		gauge.Set(0)
		if open {
			gauge.Set(1)
		}
	}
}
