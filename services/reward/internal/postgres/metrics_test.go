package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/sandbox"
)

// counts returns a function that returns how much the counters have grown since. Tests that use it
// are not parallel, since all tests share the counters.
func counts(t *testing.T) func() map[string]float64 {
	t.Helper()
	postgres.New(nil, postgres.Options{}) // the counters exist from the start
	read := func() map[string]float64 {
		values := metricstest.ByLabel(t, "urr_rewards_total", "status")
		late, _ := metricstest.MetricSum(t, "urr_rewards_paid_afterwards_total", map[string]string{"kind": "POINT"})
		values["paid afterwards"] = late
		for code, n := range metricstest.ByLabel(t, "urr_rewards_given_up_total", "code") {
			values["given up: "+code] = n
		}
		return values
	}
	before := read()
	return func() map[string]float64 {
		moved := map[string]float64{}
		for name, value := range read() {
			from, known := before[name]
			require.True(t, known, "%s begins above 0", name)
			if value != from {
				moved[name] = value - from
			}
		}
		return moved
	}
}

func settle(t *testing.T, store *postgres.Payouts, c payout.ClaimedAllocation, o payout.CallOutcome) {
	t.Helper()
	_, err := store.Settle(t.Context(), payout.EndedCall{
		ID: c.ID, Version: c.Version, Action: c.Action, Result: payout.CallResult{Outcome: o, TransactionID: "tx"},
	}, policy())
	require.NoError(t, err)
}

func TestCountersFollowTheStatuses(t *testing.T) {
	env := newEnvironment(t, sandbox.Faults{})
	moved := counts(t)
	fill(t, env.pool, 6) // written directly, so not counted
	store := env.payouts(t)
	claims, err := store.Claim(t.Context(), payout.Point, 5, policy())
	require.NoError(t, err)
	require.Len(t, claims, 5)
	settle(t, store, claims[0], payout.Paid)
	settle(t, store, claims[0], payout.Paid) // repeated: nothing changes
	settle(t, store, claims[1], payout.RefusedForGood)
	settle(t, store, claims[2], payout.Refused)
	require.NoError(t, store.Release(t.Context(), []payout.ClaimRef{{ID: claims[3].ID, Version: claims[3].Version}, {ID: claims[0].ID, Version: 1}}))
	require.Equal(t, map[string]float64{"PROCESSING": 5, "SUCCESS": 1, "FAILED": 3, "given up: REFUSED": 1}, moved())

	moved = counts(t)
	require.NoError(t, env.operators().Cancel(t.Context(), []int64{claims[2].ID, claims[4].ID, 6}, false))
	settle(t, store, claims[4], payout.Refused) // it was under way when it was cancelled
	settle(t, store, claims[2], payout.Paid)    // paid after all
	settle(t, store, claims[1], payout.Paid)
	require.Equal(t, map[string]float64{"CANCELLED": 3, "SUCCESS": 2, "paid afterwards": 2}, moved())
}

func TestCountersOfHeldRewards(t *testing.T) {
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	moved := counts(t)
	store := env.payouts(t)
	dying := policy()
	dying.Lease, dying.MaxRecoveries = 0, 0
	_, err := store.Claim(t.Context(), payout.Point, 1, dying)
	require.NoError(t, err)
	held, err := store.HoldAbandoned(t.Context(), payout.Point, dying)
	require.NoError(t, err)
	require.Equal(t, 1, held)
	require.NoError(t, env.operators().Resolve(t.Context(), 1, false, ""))
	require.Equal(t, map[string]float64{"PROCESSING": 1, "FAILED": 1}, moved(), "resolved as unpaid it is FAILED still")
}

func TestCountersOfEntriesAndWinners(t *testing.T) {
	m := newMembers(t, kst(t, "2026-03-07 12:00:00.000"))
	daily := points(10)
	m.create(campaign.Campaign{EventID: "a", Kind: campaign.Attendance, Daily: &daily, Milestones: []campaign.Milestone{{Day: 1, Reward: points(5)}}})
	moved := counts(t)
	m.attend("a", "ann", "2026-03-07 12:00:00.000")
	m.attend("a", "ann", "2026-03-07 13:00:00.000")
	require.Equal(t, map[string]float64{"PENDING": 2}, moved(), "the day and the milestone, once")

	moved = counts(t)
	winners := postgres.Winners{Database: postgres.New(m.pool, postgres.Options{Now: m.clock.Now})}
	announce := func(request string) {
		_, err := winners.Announce(t.Context(), announced(request, campaign.Winner{RequestID: request, PromotionID: "p", MemberID: "ann", At: m.clock.Now()}))
		require.NoError(t, err)
	}
	announce("r1")
	require.Empty(t, moved(), "no campaign rewards it yet")
	m.create(campaign.Campaign{EventID: "w", Kind: campaign.RequestWinners, PromotionID: "p", Daily: &daily})
	announce("r2")
	announce("r2")
	require.Equal(t, map[string]float64{"PENDING": 1}, moved())
	rewarded, _, err := winners.RewardEarlier(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, rewarded)
	require.Equal(t, map[string]float64{"PENDING": 2}, moved())
}

// The gauges are those of the last measurement, so no other test may measure meanwhile.
func TestBacklogIsMeasured(t *testing.T) {
	env := newEnvironment(t, sandbox.Faults{})
	// measured runs the worker until it has set the gauge of paused payouts.
	measured := func(paused float64) map[string]float64 {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- postgres.New(env.pool, postgres.Options{}).BacklogWorker(slog.New(slog.DiscardHandler))(ctx)
		}()
		testkit.Until(t, func() bool {
			value, ok := metricstest.MetricSum(t, "urr_reward_paused", map[string]string{"kind": "POINT"})
			return ok && value == paused
		}, "the backlog is measured")
		stop()
		require.NoError(t, <-done)
		values := metricstest.ByName(t, "kind", "POINT")
		other := metricstest.ByName(t, "kind", "COUPON")
		for _, name := range []string{"urr_rewards_due_oldest_seconds", "urr_rewards_unknown", "urr_rewards_held", "urr_rewards_leases_lapsed", "urr_rewards_recovered", "urr_rewards_failing_oldest_seconds", "urr_rewards_unpaid"} {
			require.Zero(t, other[name], "the other kind has nothing")
		}
		return values
	}
	require.Zero(t, measured(0)["urr_rewards_due_oldest_seconds"])

	fill(t, env.pool, 7)
	set := func(id int, assignments string) {
		_, err := env.pool.Exec(t.Context(), `UPDATE event_reward_allocation SET `+assignments+` WHERE id = $1`, id)
		require.NoError(t, err)
	}
	const processing = `reward_status = 'PROCESSING', next_retry_at = NULL, `
	set(1, `next_retry_at = now() - interval '1 hour'`)
	set(2, processing+`lease_until = now() - interval '2 hours', recoveries = 1, unknown_since = now() - interval '3 hours'`)
	set(3, processing+`lease_until = now() + interval '1 hour', recoveries = 2`)
	set(4, `reward_status = 'FAILED', next_retry_at = NULL, held_at = now(), unknown_since = now() - interval '4 hours'`)
	set(5, `reward_status = 'FAILED', next_retry_at = now() + interval '5 hours', failing_since = now() - interval '6 hours'`)
	set(6, `reward_status = 'FAILED', next_retry_at = NULL, error_code = 'REFUSED'`)
	set(7, `reward_status = 'FAILED', next_retry_at = NULL, error_code = 'REFUSED'`)
	require.NoError(t, env.operators().Cancel(t.Context(), []int64{7}, false))
	require.NoError(t, env.operators().Pause(t.Context(), payout.Point))
	got := measured(1)
	require.InDelta(t, 2*time.Hour.Seconds(), got["urr_rewards_due_oldest_seconds"], 600, "the lapsed lease is the oldest")
	require.InDelta(t, 3*time.Hour.Seconds(), got["urr_rewards_unknown_oldest_seconds"], 600, "the older one is held")
	require.InDelta(t, 6*time.Hour.Seconds(), got["urr_rewards_failing_oldest_seconds"], 600, "it is retried on time, and fails all the same")
	for name, want := range map[string]float64{
		"urr_rewards_unknown": 1, "urr_rewards_held": 1, "urr_rewards_leases_lapsed": 1, "urr_rewards_recovered": 2, "urr_reward_paused": 1,
		"urr_rewards_unpaid": 1, // one of two: an operator has decided about the other
	} {
		require.InDelta(t, want, got[name], 0, name)
	}

	// An allocation that is due later does not count as due.
	_, err := env.pool.Exec(t.Context(), `UPDATE event_reward_allocation SET reward_status = 'FAILED', lease_until = NULL, next_retry_at = now() + interval '1 hour'`)
	require.NoError(t, err)
	require.NoError(t, env.operators().Resume(t.Context(), payout.Point))
	require.Zero(t, measured(0)["urr_rewards_due_oldest_seconds"])
}
