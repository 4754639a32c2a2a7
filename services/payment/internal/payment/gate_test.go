package payment

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// ages is a database and a ticket service that return these ages to a gate.
type ages struct {
	Tickets

	unpublished, unapplied, measuredAgo time.Duration
	extension                           time.Duration
	dbErr, ticketErr                    error
}

func (a *ages) OldestEvent(context.Context) (time.Duration, error) { return a.unpublished, a.dbErr }
func (a *ages) Settlement(context.Context) (Settlement, error) {
	return Settlement{Oldest: a.unapplied, MeasuredAgo: a.measuredAgo, MaxExtension: a.extension}, a.ticketErr
}

func TestGateHysteresis(t *testing.T) {
	t.Parallel()
	a := &ages{}
	g := NewGate(a, a, time.Now)
	closed := func(unpublished, unapplied time.Duration) bool {
		a.unpublished, a.unapplied = unpublished, unapplied
		oldest, err := g.Measure(t.Context())
		require.NoError(t, err)
		require.Equal(t, max(unpublished, unapplied), oldest)
		return g.Closed()
	}
	require.False(t, closed(2*time.Minute, 0))
	require.True(t, closed(2*time.Minute+1, 0), "what is not published")
	require.True(t, closed(30*time.Second, 0), "until it is well below")
	require.False(t, closed(30*time.Second-1, 0))
	require.True(t, closed(0, 3*time.Minute), "what ticket has not applied")
	require.True(t, closed(time.Minute, 0))
	require.False(t, closed(0, 0))
}

// A failed measurement changes nothing: without database and ticket service nobody can confirm.
func TestGateKeepsLastMeasurement(t *testing.T) {
	t.Parallel()
	a := &ages{unapplied: 3 * time.Minute}
	g := NewGate(a, a, time.Now)
	_, err := g.Measure(t.Context())
	require.NoError(t, err)
	errAway := errors.New("away")
	a.unapplied, a.ticketErr = 0, errAway
	_, err = g.Measure(t.Context())
	require.ErrorIs(t, err, errAway)
	require.True(t, g.Closed())
	a.ticketErr, a.dbErr = nil, errAway
	_, err = g.Measure(t.Context())
	require.ErrorIs(t, err, errAway)
	require.False(t, g.Closed())
}

// If a replica of the ticket service returns an old measurement, the latest one still counts.
func TestGateUsesLatestMeasurement(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	a := &ages{}
	g := NewGate(a, a, clock.Now)
	closed := func(unapplied, measuredAgo time.Duration) bool {
		clock.Advance(2 * time.Second)
		a.unapplied, a.measuredAgo = unapplied, measuredAgo
		_, err := g.Measure(t.Context())
		require.NoError(t, err)
		return g.Closed()
	}
	for range 5 {
		require.True(t, closed(3*time.Minute, time.Second))
		require.True(t, closed(0, 4*time.Minute), "one that has been cut off since before the backlog")
	}
	for range 5 {
		require.False(t, closed(time.Second, time.Second))
		require.False(t, closed(4*time.Minute, 4*time.Minute), "one that is cut off, and that supposes the worst")
	}
}
