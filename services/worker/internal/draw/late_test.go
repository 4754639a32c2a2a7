package draw_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// If the root comes too late for its beacon round, a later round decides. The statement says so.
func TestMissedRounds(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, func(c *fairdraw.Commitment) { c.AnnouncedAt += time.Hour.Milliseconds() })
	w.enter(t, 5)
	require.Equal(t, promotion.DrawRoot, w.pass(t, 2*round-59*time.Second))
	require.Equal(t, int64(2), w.verify(t).Statement.MissedRounds)
	require.Equal(t, promotion.DrawRoot, w.pass(t, 2*round))
	require.Equal(t, promotion.DrawRoot, w.pass(t, 3*round))
	require.Equal(t, promotion.DrawDrawn, w.pass(t, ranked+time.Hour))
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles+time.Hour))
	require.True(t, w.verify(t).Complete)
	w.requireResults(t)
}

// A statement that was stored in time, but not signed in time, is never signed.
func TestStatementThatWasNotSignedInTime(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, func(c *fairdraw.Commitment) { c.AnnouncedAt += time.Hour.Milliseconds() })
	w.enter(t, 5)
	w.keysAre(t, otherSigningKey())
	w.clock.Set(cutoff.Add(after))
	require.NoError(t, w.drawer(w.store).Pass(t.Context()))
	require.Equal(t, 1, w.figures.last.Failing)
	require.Equal(t, 1, w.figures.last.KeyMissing)
	l := w.lottery(t)
	require.Equal(t, promotion.DrawClosed, l.Draw.Phase)
	require.NotEmpty(t, l.Draw.Statement)
	require.False(t, l.Draw.Public())
	w.verify(t)
	w.keysAre(t, keyConfig(1))
	require.Equal(t, promotion.DrawRoot, w.pass(t, round-30*time.Second))
	require.Equal(t, int64(1), w.verify(t).Statement.MissedRounds)
	require.NotEqual(t, l.Draw.Statement, w.lottery(t).Draw.Statement)
}

// A root that may be public less than a minute before its round waits until that round is missed.
func TestRootShortlyBeforeItsLatestTime(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, func(c *fairdraw.Commitment) { c.AnnouncedAt += time.Hour.Milliseconds() })
	w.enter(t, 5)
	latest := round - fairdraw.RootLead
	require.Equal(t, promotion.DrawClosed, w.pass(t, latest-5*time.Second))
	require.Empty(t, w.lottery(t).Draw.Statement)
	require.Equal(t, promotion.DrawRoot, w.pass(t, latest+time.Millisecond))
	require.Equal(t, int64(1), w.verify(t).Statement.MissedRounds)
}

// lateSigner loses the write of the signature, and moves the clock until the root is too late.
type lateSigner struct {
	leaseless

	w     *environment
	tries int
	until time.Time // the deadline of the write
}

func (s *lateSigner) Advance(ctx context.Context, before, after promotion.Draw) error {
	if !before.Public() && after.Public() {
		s.tries++
		s.until, _ = ctx.Deadline()
		s.w.clock.Set(cutoff.Add(round - fairdraw.RootLead + time.Second))
		return errs.ErrUnavailable
	}
	return s.leaseless.Advance(ctx, before, after)
}

// The signature is written once, under a deadline, and never retried, so that no statement becomes
// public after its root would be late.
func TestSignatureIsWrittenInTimeOrNever(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, func(c *fairdraw.Commitment) { c.AnnouncedAt += time.Hour.Milliseconds() })
	w.enter(t, 5)
	w.clock.Set(cutoff.Add(round - fairdraw.RootLead - 11*time.Second))
	store := &lateSigner{leaseless: leaseless{w.store}, w: w}
	require.NoError(t, w.drawer(store).Pass(t.Context()))
	require.Equal(t, 1, store.tries)
	require.False(t, store.until.IsZero())
	stated := w.lottery(t).Draw
	require.Equal(t, promotion.DrawClosed, stated.Phase)
	require.NotEmpty(t, stated.Statement)
	require.Equal(t, promotion.DrawRoot, w.pass(t, round-fairdraw.RootLead+2*time.Second))
	require.NotEqual(t, stated.Statement, w.lottery(t).Draw.Statement)
	require.Equal(t, int64(1), w.verify(t).Statement.MissedRounds)
}
