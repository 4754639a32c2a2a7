package room_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// hangingBackend blocks every call until its context ends.
type hangingBackend struct{}

func (hangingBackend) ReadActive(ctx context.Context, _ []string) ([]room.Counters, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hangingBackend) SetServing(ctx context.Context, _ room.Counters, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hangingBackend) Claimed(ctx context.Context, _ string, _ room.Round) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hangingBackend) ReadLoad(ctx context.Context, _ string) (room.TierTwoLoad, error) {
	<-ctx.Done()
	return room.TierTwoLoad{}, ctx.Err()
}

// A store that hangs does not block a replica: a step has a time limit.
func TestStepTimesOutWhenStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := room.NewAdvancer(room.NewStateCache(), hangingBackend{}, hangingBackend{}, hangingBackend{}, time.Now, slog.New(slog.DiscardHandler))
		start := time.Now()
		require.ErrorIs(t, a.Step(t.Context()), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// If tier 2 hangs, its calls count as failed: after LoadGrace the configured rate applies.
func TestHangingLoadFallsBackToRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := roomtest.NewMemory(time.Now)
		settings := room.DefaultSettings()
		settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 1
		c := roomtest.StartRound(t, m, "e", settings)
		for range 1000 {
			id := uuid.New()
			_, err := roomtest.Take(t.Context(), m, c, id.String(), id)
			require.NoError(t, err)
		}
		a := room.NewAdvancer(room.NewStateCache(), m, m, hangingBackend{}, time.Now, slog.New(slog.DiscardHandler))
		start := time.Now()
		for time.Since(start) < room.LoadGrace+4*time.Second {
			began := time.Now()
			require.NoError(t, a.Step(t.Context()))
			require.LessOrEqual(t, time.Since(began), time.Second, "all other events wait for the step")
			<-time.After(room.ReadInterval)
		}
		got, limit := roomtest.Read(t, m, "e").Serving, int64(50*(time.Since(start)-room.LoadGrace).Seconds())
		require.GreaterOrEqual(t, got, limit/2)
		require.LessOrEqual(t, got, limit)
		require.NotZero(t, a.Stats().Fallbacks.Load())
	})
}

// An event that the store no longer has is closed, since nobody can get a position there.
func TestAdvancerClosesDeletedEvent(t *testing.T) {
	t.Parallel()
	h := newSimulation(t, 1, room.DefaultSettings())
	h.step(0)
	h.store.DeleteEvent("e")
	h.step(0)
	st, ok := h.caches[0].Get("e")
	require.True(t, ok)
	require.False(t, st.Active)
}

// An outage of the store is logged twice: when it begins and when it ends.
func TestRunLogsOutageOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := roomtest.NewMemory(time.Now)
		var log bytes.Buffer
		a := room.NewAdvancer(room.NewStateCache(), m, m, hangingBackend{}, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		m.SetDown(true)
		<-time.After(time.Minute)
		m.SetDown(false)
		<-time.After(time.Minute)
		stop()
		require.NoError(t, <-done)
		require.Equal(t, 2, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), "counters can be read again")
	})
}

// claimShareOfServed claims positions until the given share of the served ones is claimed.
func (h *simulation) claimShareOfServed(share float64) {
	h.t.Helper()
	for c := roomtest.Read(h.t, h.store, "e"); h.claimed < int64(share*float64(c.Serving)); h.claimed++ {
		h.store.RecordClaim(room.Record{EventID: "e", Round: h.round, RequestID: uuid.New()})
	}
}

// run runs the steps of replica 0 for d, while the given share of the served positions is claimed.
func (h *simulation) run(d time.Duration, share float64) {
	h.t.Helper()
	for range d / room.ReadInterval {
		h.clock.Advance(room.ReadInterval)
		h.step(0)
		h.claimShareOfServed(share)
	}
}

// Visitors whose claims cannot be written seem to have left, which would raise the rate up to five
// times. So the share is unchanged until claims can be written again and a whole window has been
// observed.
func TestClaimShareUnchangedWhileClaimsFail(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"everybody comes": 1, "half of them come": 0.5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newSimulation(t, 1, room.DefaultSettings())
			h.issue(50_000)
			h.run(110*time.Second, share)
			perSecond := 50 / share
			before := h.serving()
			h.store.SetClaimsDown(true)
			h.run(time.Minute, share)
			require.InDelta(t, 60*perSecond, h.serving()-before, 4*perSecond, "a minute without claims")
			before = h.serving()
			h.store.SetClaimsDown(false)
			h.run(time.Minute, share)
			require.InDelta(t, 60*perSecond, h.serving()-before, 4*perSecond, "the minute after it")
			require.NotZero(t, h.replicas[0].Stats().ClaimsMissed.Load())
		})
	}
}

// After a failed call to tier 2 nobody is served, since tier 2 may be full. After 5 s of failures
// the counter follows the configured rate, measured from then on.
func TestFailedLoadsServeNobodyForFiveSeconds(t *testing.T) {
	t.Parallel()
	settings := room.DefaultSettings()
	settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 120
	h := newSimulation(t, 2, settings)
	h.issue(2000)
	h.loads.err, h.loads.load = nil, room.TierTwoLoad{Waiting: 100, Active: 20}
	both := func(n int) {
		for range n {
			h.clock.Advance(room.ReadInterval)
			h.step(0)
			h.step(1)
			h.claimShareOfServed(1)
		}
	}
	both(150)
	require.Zero(t, h.serving(), "tier 2 is full")
	h.loads.err = errors.New("queue is gone")
	both(1)
	require.Zero(t, h.serving(), "one answer is missing")
	h.loads.err = nil
	both(1)
	h.loads.err = errors.New("queue is gone")
	both(13) // 12 intervals since the first failed call
	require.Zero(t, h.serving(), "away for 4.8 s")
	both(1)
	require.LessOrEqual(t, h.serving(), int64(10), "away for 5.2 s: 0.2 s of the rate")
	both(10)
	require.InDelta(t, 210, h.serving(), 10, "4.2 s of the rate")
	require.NotZero(t, h.replicas[0].Stats().Fallbacks.Load())
}
