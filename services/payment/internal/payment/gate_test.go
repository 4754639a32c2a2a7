package payment

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

// ages answers the gate's measurements.
type ages struct {
	Tickets

	here, there, ago    time.Duration
	extension           time.Duration
	hereErr, thereError error
}

func (a *ages) OldestEvent(context.Context) (time.Duration, error) { return a.here, a.hereErr }
func (a *ages) Settlement(context.Context) (Settlement, error) {
	return Settlement{Oldest: a.there, MeasuredAgo: a.ago, MaxExtension: a.extension}, a.thereError
}

func TestGateHysteresis(t *testing.T) {
	t.Parallel()
	a := &ages{}
	g := NewGate(a, a, time.Now)
	closed := func(here, there time.Duration) bool {
		a.here, a.there = here, there
		oldest, err := g.Measure(t.Context())
		require.NoError(t, err)
		require.Equal(t, max(here, there), oldest)
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

// A failed measurement changes nothing: without ticket or the database nobody can confirm anyway.
func TestGateKeepsLastMeasurement(t *testing.T) {
	t.Parallel()
	a := &ages{there: 3 * time.Minute}
	g := NewGate(a, a, time.Now)
	_, err := g.Measure(t.Context())
	require.NoError(t, err)
	away := errors.New("away")
	a.there, a.thereError = 0, away
	_, err = g.Measure(t.Context())
	require.ErrorIs(t, err, away)
	require.True(t, g.Closed())
	a.thereError, a.hereErr = nil, away
	_, err = g.Measure(t.Context())
	require.ErrorIs(t, err, away)
	require.False(t, g.Closed())
}

// Each call may reach another replica of ticket.
func TestGateUsesLatestMeasurement(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	a := &ages{}
	g := NewGate(a, a, clock.Now)
	closed := func(there, ago time.Duration) bool {
		clock.Advance(2 * time.Second)
		a.there, a.ago = there, ago
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
