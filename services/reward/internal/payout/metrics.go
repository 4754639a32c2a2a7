package payout

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

//nolint:gochecknoglobals // metrics are registered once per process
var (
	callsTotal = counter("urr_reward_calls_total", "Calls to a provider by their outcome.", "kind", "action", "outcome")
	lateTotal  = counter("urr_reward_late_total", "Calls that were not sent, and outcomes that were ignored, since their lease had ended.", "kind")
	// abandonedTotal is alerted on: such an allocation kills its workers.
	abandonedTotal = counter("urr_reward_abandoned_total", "Allocations that were stopped because several workers died with them.", "kind")
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}
