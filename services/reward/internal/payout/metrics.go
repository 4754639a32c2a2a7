package payout

import "urr.guru/pkg/telemetry"

//nolint:gochecknoglobals // metrics are registered once per process
var (
	callsTotal = telemetry.Counter("urr_reward_calls_total", "Calls to a provider by their outcome.", "kind", "action", "outcome")
	lateTotal  = telemetry.Counter("urr_reward_late_total", "Calls that were not sent, and outcomes that were ignored, since their lease had ended.", "kind")
	// An alert watches abandonedTotal: the allocation itself may be what kills its workers.
	abandonedTotal = telemetry.Counter("urr_reward_abandoned_total", "Allocations that were stopped because several workers died with them.", "kind")
)
