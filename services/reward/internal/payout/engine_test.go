package payout_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/payout"
)

// oneReward is a store with a single reward, which may be claimed once from the time due on.
type oneReward struct {
	due       time.Time
	claimFor  time.Duration // how long a claim takes
	claimedAt time.Time
	settled   []payout.Call
}

func (s *oneReward) Claim(context.Context, payout.Kind, int, payout.Policy) ([]payout.Claimed, error) {
	if time.Now().Before(s.due) || !s.claimedAt.IsZero() {
		return nil, nil
	}
	s.claimedAt = time.Now()
	time.Sleep(s.claimFor)
	return []payout.Claimed{{Allocation: payout.Allocation{ID: 1, Version: 2}, Action: payout.Pay}}, nil
}

func (s *oneReward) Settle(_ context.Context, c payout.Call, _ payout.Policy) (bool, error) {
	s.settled = append(s.settled, c)
	return true, nil
}

func (*oneReward) Renew(context.Context, []payout.ClaimRef, payout.Policy) error { return nil }
func (*oneReward) Release(context.Context, []payout.ClaimRef) error              { return nil }

func (*oneReward) HoldAbandoned(context.Context, payout.Kind, payout.Policy) (int, error) {
	return 0, nil
}

// payer pays everything.
type payer struct{ payments int }

func (p *payer) Pay(context.Context, payout.Allocation) payout.Result {
	p.payments++
	return payout.Result{Outcome: payout.Paid, TransactionID: "tx"}
}

func (*payer) Lookup(context.Context, string) payout.Result { return payout.Result{} }
func (*payer) Void(context.Context, string) payout.Result   { return payout.Result{} }
func (*payer) Admits() int                                  { return 100 }

// during runs an engine for some time of the bubble's clock.
func during(t *testing.T, s *oneReward, long time.Duration) *payer {
	t.Helper()
	p := &payer{}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	require.NoError(t, payout.NewEngine(payout.Point, s, p, policy(), 4, slog.New(slog.DiscardHandler)).Run(ctx))
	return p
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

// The answer to a claim may arrive when its lease has ended; its next holder decides then.
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
