package payout_test

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/payout"
)

// oneReward is a store with a single reward, which can be claimed once, from the time due.
type oneReward struct {
	due       time.Time
	claimFor  time.Duration // how long a claim takes
	claimedAt time.Time
	action    payout.Action // PAY by default
	settled   []payout.EndedCall
}

func (s *oneReward) Claim(context.Context, payout.Kind, int, payout.Policy) ([]payout.ClaimedAllocation, error) {
	if time.Now().Before(s.due) || !s.claimedAt.IsZero() {
		return nil, nil
	}
	s.claimedAt = time.Now()
	time.Sleep(s.claimFor)
	return []payout.ClaimedAllocation{{Allocation: payout.Allocation{ID: 1, Version: 2, IdempotencyKey: "k"}, Action: cmp.Or(s.action, payout.Pay)}}, nil
}

func (s *oneReward) Settle(_ context.Context, c payout.EndedCall, _ payout.Policy) (bool, error) {
	s.settled = append(s.settled, c)
	return true, nil
}

func (*oneReward) Renew(context.Context, []payout.ClaimRef, payout.Policy) error { return nil }
func (*oneReward) Release(context.Context, []payout.ClaimRef) error              { return nil }

func (*oneReward) HoldAbandoned(context.Context, payout.Kind, payout.Policy) (int, error) {
	return 0, nil
}

// payer is a provider that makes every payment.
type payer struct{ payments int }

func (p *payer) Pay(context.Context, payout.Allocation) payout.CallResult {
	p.payments++
	return payout.CallResult{Outcome: payout.Paid, TransactionID: "tx"}
}

func (*payer) Lookup(context.Context, string) payout.CallResult { return payout.CallResult{} }
func (*payer) Void(context.Context, string) payout.CallResult   { return payout.CallResult{} }
func (*payer) CallsAllowed() int                                { return 100 }

// during runs an engine for a time of the fake clock, and returns its provider.
func during(t *testing.T, s *oneReward, long time.Duration) *payer {
	t.Helper()
	p := &payer{}
	runFor(t, s, p, long)
	return p
}

func runFor(t *testing.T, s *oneReward, p payout.Provider, long time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	require.NoError(t, payout.NewEngine(payout.Point, s, p, policy(), 4, slog.New(slog.DiscardHandler)).Run(ctx))
}

// asked is a provider that has no payout. Its look-up and its void last for takes each.
type asked struct {
	payer

	takes time.Duration
	void  payout.CallOutcome
}

func (p *asked) Lookup(ctx context.Context, _ string) payout.CallResult {
	return p.answer(ctx, payout.Absent)
}
func (p *asked) Void(ctx context.Context, _ string) payout.CallResult { return p.answer(ctx, p.void) }

func (p *asked) answer(ctx context.Context, o payout.CallOutcome) payout.CallResult {
	select {
	case <-ctx.Done():
		return payout.CallResult{Outcome: payout.Unknown}
	case <-time.After(p.takes): // by the fake clock
		return payout.CallResult{Outcome: o, TransactionID: "tx"}
	}
}

// The answer of a look-up that finds nothing counts only if the provider cannot void keys. If the
// answer to the void is unclear, the outcome is unknown, since the key may be void. The void has as
// much time as the look-up.
func TestQuestionEndsAsItsVoid(t *testing.T) {
	t.Parallel()
	for void, want := range map[payout.CallOutcome]payout.CallOutcome{
		payout.Voided: payout.Voided, payout.Paid: payout.Paid, payout.Absent: payout.Absent, payout.Unknown: payout.Unknown,
	} {
		t.Run(string(void), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &oneReward{action: payout.Ask}
				runFor(t, s, &asked{takes: policy().CallTimeout * 3 / 5, void: void}, time.Minute)
				require.Len(t, s.settled, 1)
				require.Equal(t, want, s.settled[0].Result.Outcome)
				require.Equal(t, s.claimedAt, s.settled[0].Result.Asked, "the answer is as old as the look-up")
			})
		})
	}
}

// A reward whose worker died is claimable once its lease has ended; an idle replica finds it by its
// poll, in far less than 5 s.
func TestIdleEngineClaimsWithinItsPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &oneReward{due: time.Now().Add(policy().Lease + 300*time.Millisecond)}
		p := during(t, s, time.Minute)
		require.LessOrEqual(t, s.claimedAt.Sub(s.due), time.Second)
		require.Equal(t, 1, p.payments)
		require.Len(t, s.settled, 1)
	})
}

// A claim that is returned after its lease has ended is not sent: another worker may have it.
func TestClaimThatArrivesTooLateIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &oneReward{claimFor: policy().CallTimeout}
		p := during(t, s, time.Minute)
		require.NotZero(t, s.claimedAt)
		require.Zero(t, p.payments)
		require.Empty(t, s.settled)
	})
}
