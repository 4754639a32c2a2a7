package postgres

import (
	"urr.guru/pkg/telemetry"
	"urr.guru/services/reward/internal/payout"
)

//nolint:gochecknoglobals // metrics are registered once per process
var (
	statusTotal   = telemetry.Counter("urr_rewards_total", "Rewards that entered a status; one that is tried again enters PROCESSING and FAILED each time.", "status")
	givenUpTotal  = telemetry.Counter("urr_rewards_given_up_total", "Rewards that failed for good, by the error's code.", "kind", "code")
	paidLateTotal = telemetry.Counter("urr_rewards_paid_afterwards_total", "Rewards that turned out to be paid after they were cancelled or given up.", "kind")
)

// startCounters sets all counters to 0, so that Prometheus sees the first change as an increase.
func startCounters() {
	for _, status := range payout.Statuses() {
		countStatus(status, 0)
	}
	for _, kind := range payout.Kinds() {
		paidLateTotal.WithLabelValues(string(kind))
		for _, code := range []string{payout.CodeRefused, payout.CodeNotPaid} {
			givenUpTotal.WithLabelValues(string(kind), code)
		}
	}
}

// countStatus counts rewards that a committed transaction has moved into a status.
func countStatus(status payout.Status, n int) {
	statusTotal.WithLabelValues(string(status)).Add(float64(n))
}

// countChanges counts the status changes of allocations, after their transaction was committed.
func countChanges(changes []changedAllocation) {
	for _, c := range changes {
		a := c.allocation
		if c.row.RewardStatus == string(a.Status) {
			continue
		}
		countStatus(a.Status, 1)
		if a.Code == payout.CodePaidAfterwards {
			paidLateTotal.WithLabelValues(string(a.Kind)).Inc()
		}
		if a.Status == payout.Failed && a.NextRetryAt.IsZero() && a.HeldAt.IsZero() {
			givenUpTotal.WithLabelValues(string(a.Kind), a.Code).Inc()
		}
	}
}
