package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/sandbox"
)

func (env *environment) operators() postgres.Operators {
	return postgres.Operators{Database: postgres.New(env.pool, postgres.Options{}), WakePayouts: func() {}}
}

func (env *environment) payouts(t *testing.T) *postgres.Payouts {
	t.Helper()
	p := postgres.NewPayouts(postgres.New(env.pool, postgres.Options{}))
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// set updates the row of the first allocation directly, to bring it into a state at once.
func (env *environment) set(t *testing.T, assignments string) {
	t.Helper()
	_, err := env.pool.Exec(t.Context(), `UPDATE event_reward_allocation SET `+assignments+` WHERE id = 1`)
	require.NoError(t, err)
}

func (env *environment) get(t *testing.T) payout.Allocation {
	t.Helper()
	a, _, err := env.operators().Get(t.Context(), 1)
	require.NoError(t, err)
	return a
}

// paidKeys returns the keys in the ledger, oldest first.
func (env *environment) paidKeys() (keys []string) {
	for _, p := range env.ledger.All() {
		keys = append(keys, p.Key)
	}
	return keys
}

func TestCancelledAllocationIsNeverPaid(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	env := newEnvironment(t, sandbox.Faults{Seed: 3, Lost: 0.3, Refused: 0.3, Late: 0.1, LateFor: 200 * time.Millisecond})
	fill(t, env.pool, 300)
	stop := env.run(t, 2, policy())
	for range 150 {
		require.NoError(t, env.operators().Cancel(t.Context(), []int64{1 + rand.Int64N(300)}, false))
	}
	testkit.Until(t, func() bool { return env.count(t, due) == 0 }, "nothing is due")
	stop()
	env.requireLedger(t)
	require.NotZero(t, env.count(t, `reward_status = 'CANCELLED'`))
}

func TestRetryOfPaidAllocationAsksFirst(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{KeyRetention: time.Millisecond})
	fill(t, env.pool, 1)
	_, err := env.ledger.Pay(sandbox.Order{Key: "rand-c-m1-log-1", MemberID: "m1", Kind: "POINT", Value: 100}, time.Millisecond)
	require.NoError(t, err)
	env.set(t, `reward_status = 'FAILED', next_retry_at = NULL, last_call_at = now() - interval '1 h', retry_count = 6, error_code = 'NOT_PAID'`)
	retried, err := env.operators().Retry(t.Context(), []int64{1})
	require.NoError(t, err)
	require.Equal(t, 1, retried)
	stop := env.run(t, 1, policy())
	testkit.Until(t, func() bool { return env.get(t).Status == payout.Success }, "the payment is found")
	stop()
	require.Len(t, env.ledger.All(), 1)
	retried, err = env.operators().Retry(t.Context(), []int64{1})
	require.NoError(t, err)
	require.Zero(t, retried, "what is paid is not retried")
}

func TestUnknownPastRetentionIsHeldUntilResolved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cancel, campaign, paid bool
		want                   payout.Status
	}{
		"paid":                       {paid: true, want: payout.Success},
		"unpaid":                     {want: payout.Failed},
		"cancelled, unpaid":          {cancel: true, want: payout.Cancelled},
		"cancelled, paid":            {cancel: true, paid: true, want: payout.Success},
		"campaign cancelled, unpaid": {campaign: true, want: payout.Cancelled},
		"campaign cancelled, paid":   {campaign: true, paid: true, want: payout.Success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t, sandbox.Faults{})
			fill(t, env.pool, 1)
			env.set(t, `reward_status = 'FAILED', next_retry_at = now(), unknown_since = now() - interval '3 h', last_call_at = now() - interval '3 h'`)
			if tc.cancel {
				require.NoError(t, env.operators().Cancel(t.Context(), []int64{1}, false))
			}
			if tc.campaign {
				require.NoError(t, env.operators().CancelCampaign(t.Context(), "c", false))
				require.NoError(t, env.operators().CancelMarked(t.Context()))
			}
			stop := env.run(t, 1, policy())
			testkit.Until(t, func() bool { return !env.get(t).HeldAt.IsZero() }, "it is held")
			stop()
			require.Equal(t, payout.CodeUnknownTooLong, env.get(t).Code)
			totals, err := env.operators().Summary(t.Context(), "c")
			require.NoError(t, err)
			require.Equal(t, []payout.Totals{{Status: payout.Failed, Allocations: 1, Points: 100, Held: 1, Unknown: 1}}, totals)
			claims, err := env.payouts(t).Claim(t.Context(), payout.Point, 10, policy())
			require.NoError(t, err)
			require.Empty(t, claims, "nothing is tried until an operator has resolved it")
			require.Empty(t, env.ledger.All())
			retried, err := env.operators().Retry(t.Context(), []int64{1})
			require.NoError(t, err)
			require.Zero(t, retried, "a retry could only ask what the provider has forgotten")
			require.NoError(t, env.operators().Resolve(t.Context(), 1, tc.paid, "tx-1"))
			require.Equal(t, tc.want, env.get(t).Status)
			require.ErrorIs(t, env.operators().Resolve(t.Context(), 1, true, ""), payout.ErrNotHeld)
			require.ErrorIs(t, env.operators().Resolve(t.Context(), 99, true, ""), payout.ErrNotFound)
		})
	}
}

func TestRetryAfterVoidPaysUnderANewKey(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{Silent: 1})
	fill(t, env.pool, 1)
	p := policy()
	p.MaxAttempts = 2
	stop := env.run(t, 1, p)
	testkit.Until(t, func() bool { return env.get(t).Code == payout.CodeNotPaid }, "it is given up")
	stop()
	require.Equal(t, 1, env.get(t).Resends)
	env.server.SetFaults(sandbox.Faults{})
	_, err := env.operators().Retry(t.Context(), []int64{1})
	require.NoError(t, err)
	p.CallTimeout, p.Lease = 10*time.Second, 30*time.Second // a busy machine must not lose the call
	stop = env.run(t, 1, p)
	testkit.Until(t, func() bool { return env.get(t).Status == payout.Success }, "it is paid")
	stop()
	require.Equal(t, []string{"rand-c-m1-log-1-R1"}, env.paidKeys())
}

// The provider has voided the key and its answer is lost. Paying under the key would be refused for
// good, so the void is repeated.
func TestVoidWhoseAnswerIsLostIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"asked late":         `reward_status = 'FAILED', unknown_since = now() - interval '2 h', last_call_at = now() - interval '2 h'`,
		"operator's retry":   `reward_status = 'FAILED', ask_first = true, last_call_at = now() - interval '2 h'`,
		"campaign cancelled": `reward_status = 'FAILED', unknown_since = now() - interval '1 h', last_call_at = now() - interval '1 h', cancel_requested_at = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t, sandbox.Faults{VoidLost: 1})
			fill(t, env.pool, 1)
			env.set(t, state)
			p := policy()
			p.CallTimeout, p.Lease, p.LookupRetention = 10*time.Second, 30*time.Second, 24*time.Hour
			stop := env.run(t, 1, p)
			testkit.Until(t, func() bool {
				var asked int
				require.NoError(t, env.pool.QueryRow(t.Context(), `SELECT count(*) FROM reward_call WHERE ended_at IS NOT NULL`).Scan(&asked))
				return asked > 0
			}, "the first void")
			env.server.SetFaults(sandbox.Faults{})
			testkit.Until(t, func() bool { return env.count(t, due) == 0 }, "nothing is due")
			stop()
			require.Equal(t, 1, env.get(t).Resends)
			if name == "campaign cancelled" {
				require.Equal(t, payout.Cancelled, env.get(t).Status)
				require.Empty(t, env.paidKeys())
				return
			}
			require.Equal(t, payout.Success, env.get(t).Status, env.get(t).Message)
			require.Equal(t, []string{"rand-c-m1-log-1-R1"}, env.paidKeys())
		})
	}
}

// After a lease is lost, its worker's late failure is refused, but its late success is kept.
func TestLateOutcomesOfALostLease(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	store := env.payouts(t)
	short := policy()
	short.Lease = 0
	first, err := store.Claim(t.Context(), payout.Point, 10, short)
	require.NoError(t, err)
	require.Len(t, first, 1)
	second, err := store.Claim(t.Context(), payout.Point, 10, policy())
	require.NoError(t, err)
	require.Len(t, second, 1, "the lapsed lease is taken over")
	require.Equal(t, first[0].Version+1, second[0].Version)
	applied, err := store.Settle(t.Context(), payout.EndedCall{ID: 1, Version: first[0].Version, Action: payout.Pay, Result: payout.CallResult{Outcome: payout.Refused}}, policy())
	require.NoError(t, err)
	require.False(t, applied)
	require.Equal(t, payout.Processing, env.get(t).Status)
	applied, err = store.Settle(t.Context(), payout.EndedCall{
		ID: 1, Version: first[0].Version, Action: payout.Pay, Result: payout.CallResult{Outcome: payout.Paid, TransactionID: "tx"},
	}, policy())
	require.NoError(t, err)
	require.True(t, applied)
	require.Equal(t, payout.Success, env.get(t).Status)
}

func TestAllocationThatKillsItsWorkersStops(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	store := env.payouts(t)
	dying := policy()
	dying.Lease = 0
	for range dying.MaxRecoveries {
		held, err := store.HoldAbandoned(t.Context(), payout.Point, dying)
		require.NoError(t, err)
		require.Zero(t, held)
		claims, err := store.Claim(t.Context(), payout.Point, 10, dying)
		require.NoError(t, err)
		require.Len(t, claims, 1)
	}
	claims, err := store.Claim(t.Context(), payout.Point, 10, dying)
	require.NoError(t, err)
	require.Empty(t, claims)
	held, err := store.HoldAbandoned(t.Context(), payout.Point, dying)
	require.NoError(t, err)
	require.Equal(t, 1, held)
	require.Equal(t, payout.CodeWorkersDied, env.get(t).Code)
	require.Zero(t, env.count(t, due))
}

func TestCancelledCampaign(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{Lost: 0.2, Seed: 5})
	fill(t, env.pool, 2500)
	stop := env.run(t, 1, policy())
	testkit.Until(t, func() bool { return env.count(t, `reward_status = 'SUCCESS'`) > 50 }, "some are paid")
	require.NoError(t, env.operators().CancelCampaign(t.Context(), "c", false))
	require.NoError(t, env.operators().CancelMarked(t.Context()))
	testkit.Until(t, func() bool { return env.count(t, due) == 0 }, "nothing is due")
	stop()
	env.requireLedger(t)
	require.NotZero(t, env.count(t, `reward_status = 'CANCELLED'`))
	require.ErrorIs(t, env.operators().CancelCampaign(t.Context(), "none", false), campaign.ErrNotFound)
}

func TestRestock(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	stock := int64(2)
	m.create(campaign.Campaign{EventID: "d", Kind: campaign.Random, Prizes: []campaign.Prize{{Name: "p", Reward: points(5), Weight: 1, Stock: &stock}}})
	var ids []int64
	for i := range 2 {
		e, err := m.service.Draw(t.Context(), "d", fmt.Sprint("m", i), "")
		require.NoError(t, err)
		ids = append(ids, e.Rewards[0].ID)
	}
	operators := postgres.Operators{Database: postgres.New(m.pool, postgres.Options{Now: m.clock.Now}), WakePayouts: func() {}}
	require.NoError(t, operators.Cancel(t.Context(), ids[:1], false))
	require.NoError(t, operators.Cancel(t.Context(), ids, true))
	c, _, err := m.service.Get(t.Context(), "d")
	require.NoError(t, err)
	require.Equal(t, int64(1), *c.Prizes[0].Stock, "only the one that asked for it, once")
}

func TestPausedProviderPaysNothing(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	require.NoError(t, env.operators().Pause(t.Context(), payout.Point))
	claims, err := env.payouts(t).Claim(t.Context(), payout.Point, 10, policy())
	require.NoError(t, err)
	require.Empty(t, claims)
	require.NoError(t, env.operators().Resume(t.Context(), payout.Point))
	claims, err = env.payouts(t).Claim(t.Context(), payout.Point, 10, policy())
	require.NoError(t, err)
	require.Len(t, claims, 1)
}

// A retry of a campaign goes on in the background, in chunks, and after a crash. It does not touch
// allocations that an operator must decide, or that fail again meanwhile.
func TestRetryOfACampaign(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 2500)
	_, err := env.pool.Exec(t.Context(), `
		UPDATE event_reward_allocation SET reward_status = 'FAILED', next_retry_at = NULL, retry_count = 6, error_code = 'REFUSED';
		UPDATE event_reward_allocation SET held_at = now(), error_code = 'WORKERS_DIED' WHERE id <= 10;
		UPDATE event_reward_allocation SET held_at = now(), error_code = 'FAILING_TOO_LONG' WHERE id > 10 AND id <= 30`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	operators := env.operators()
	require.NoError(t, operators.RetryCampaign(t.Context(), "c"))
	require.Zero(t, env.count(t, due), "the answer does not wait for it")
	ctx, crash := context.WithCancel(t.Context())
	operators.WakePayouts = crash // after the first chunk
	require.ErrorIs(t, operators.RetryMarked(ctx), context.Canceled)
	require.Equal(t, 1000, env.count(t, due))
	// Allocation 40 is given up again.
	_, err = env.pool.Exec(t.Context(), `UPDATE event_reward_allocation SET next_retry_at = NULL WHERE id = 40`)
	require.NoError(t, err)
	var work sync.WaitGroup
	for range 3 { // replicas
		work.Go(func() {
			if err := env.operators().RetryMarked(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	require.NoError(t, env.operators().RetryMarked(t.Context()), "one that found the campaign locked has left it to another")
	require.Equal(t, 2489, env.count(t, due))
	require.Equal(t, 10, env.count(t, `held_at IS NOT NULL`))
	env.requireTotals(t)
	require.ErrorIs(t, env.operators().RetryCampaign(t.Context(), "none"), campaign.ErrNotFound)
}

// A reward about which an operator's retry got no clear answer is not cancelled yet.
func TestCancelAwaitsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]payout.Status{"paid": payout.Success, "unpaid": payout.Cancelled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t, sandbox.Faults{})
			fill(t, env.pool, 1)
			if name == "paid" {
				_, err := env.ledger.Pay(sandbox.Order{Key: "rand-c-m1-log-1", MemberID: "m1", Kind: "POINT", Value: 100}, time.Hour)
				require.NoError(t, err)
			}
			env.set(t, `reward_status = 'FAILED', next_retry_at = now() + interval '1 h', last_call_at = now() - interval '2 h', ask_first = true, error_code = 'UNKNOWN'`)
			require.NoError(t, env.operators().Cancel(t.Context(), []int64{1}, false))
			require.Equal(t, payout.Failed, env.get(t).Status)
			p := policy()
			p.CallTimeout, p.Lease = 10*time.Second, 30*time.Second // a busy machine must not lose the call
			stop := env.run(t, 1, p)
			testkit.Until(t, func() bool { return env.get(t).Status == want }, "it has ended")
			stop()
		})
	}
}
