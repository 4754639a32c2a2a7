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

// hanging answers when its caller has given up.
type hanging struct{}

func (hanging) Active(ctx context.Context, _ []string) ([]room.Counters, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Serve(ctx context.Context, _ room.Counters, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Claimed(ctx context.Context, _ string, _ room.Round) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hanging) Load(ctx context.Context, _ string) (room.Load, error) {
	<-ctx.Done()
	return room.Load{}, ctx.Err()
}

// A store that hangs does not silence a replica for good.
func TestStepGivesUpOnAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := room.NewAdvancer(room.NewBoard(), hanging{}, hanging{}, hanging{}, time.Now, slog.New(slog.DiscardHandler))
		start := time.Now()
		require.ErrorIs(t, a.Step(t.Context()), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// A tier 2 that hangs is one that cannot be reached: the counter goes on by the rate.
func TestLoadThatHangsIsNoLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := roomtest.NewMemory(time.Now)
		settings := room.DefaultSettings()
		settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 1
		c := roomtest.Open(t, m, "e", settings)
		for range 1000 {
			id := uuid.New()
			_, err := m.Take(t.Context(), "e", c.Round, id.String(), []uuid.UUID{id})
			require.NoError(t, err)
		}
		a := room.NewAdvancer(room.NewBoard(), m, m, hanging{}, time.Now, slog.New(slog.DiscardHandler))
		start := time.Now()
		for time.Since(start) < room.LoadGrace+4*time.Second {
			began := time.Now()
			require.NoError(t, a.Step(t.Context()))
			require.LessOrEqual(t, time.Since(began), time.Second, "all other events wait for the step")
			<-time.After(room.ReadEvery)
		}
		got, most := roomtest.Read(t, m, "e").Serving, int64(50*(time.Since(start)-room.LoadGrace).Seconds())
		require.GreaterOrEqual(t, got, most/2)
		require.LessOrEqual(t, got, most)
		require.NotZero(t, a.Stats().Fallbacks.Load())
	})
}

// An event that the store holds no more is closed: nobody could get a position of it.
func TestAdvancerClosesWhatIsGone(t *testing.T) {
	t.Parallel()
	h := newHall(t, 1, room.DefaultSettings())
	h.step(0)
	h.store.Drop("e")
	h.step(0)
	st, ok := h.boards[0].Get("e")
	require.True(t, ok)
	require.False(t, st.Active)
}

// A store that fails for minutes is two lines in the log: when it began and when it was over.
func TestRunLogsAFailureOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := roomtest.NewMemory(time.Now)
		var log bytes.Buffer
		a := room.NewAdvancer(room.NewBoard(), m, m, hanging{}, time.Now, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		m.Fail(true)
		<-time.After(time.Minute)
		m.Fail(false)
		<-time.After(time.Minute)
		stop()
		require.NoError(t, <-done)
		require.Equal(t, 2, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), "counters can be read again")
	})
}

// come lets visitors claim until share of the served positions is claimed.
func (h *hall) come(share float64) {
	h.t.Helper()
	for c := roomtest.Read(h.t, h.store, "e"); h.came < int64(share*float64(c.Serving)); h.came++ {
		h.store.Claim(room.Record{EventID: "e", Round: h.round, RequestID: uuid.New()})
	}
}

// live steps replica 0 for d while the given share of those served comes.
func (h *hall) live(d time.Duration, share float64) {
	h.t.Helper()
	for range d / room.ReadEvery {
		h.clock.Advance(room.ReadEvery)
		h.step(0)
		h.come(share)
	}
}

// Claims that cannot be written look like visitors who have left, and would raise the rate up to
// five times: the last share stays until claims can be written and a whole window was seen again.
func TestShareStaysWhileClaimsCannotBeWritten(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"everybody comes": 1, "half of them come": 0.5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHall(t, 1, room.DefaultSettings())
			h.issue(50_000)
			h.live(50*time.Second, share)
			perSecond := 50 / share
			before := h.serving()
			h.store.FailClaims(true)
			h.live(time.Minute, share)
			require.InDelta(t, 60*perSecond, h.serving()-before, 4*perSecond, "a minute without claims")
			before = h.serving()
			h.store.FailClaims(false)
			h.live(time.Minute, share)
			require.InDelta(t, 60*perSecond, h.serving()-before, 4*perSecond, "the minute after it")
			require.NotZero(t, h.replicas[0].Stats().ClaimsMissed.Load())
		})
	}
}

// A tier 2 that is full gets nobody because one question went unanswered: the counter stood still
// for good reason. Only a queue that is away for 5 s is replaced by the rate, measured from then.
func TestMissedLoadsServeNobodyForFiveSeconds(t *testing.T) {
	t.Parallel()
	settings := room.DefaultSettings()
	settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 120
	h := newHall(t, 2, settings)
	h.issue(2000)
	h.loads.err, h.loads.load = nil, room.Load{Waiting: 100, Active: 20}
	both := func(n int) {
		for range n {
			h.clock.Advance(room.ReadEvery)
			h.step(0)
			h.step(1)
			h.come(1)
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
	both(13) // 12 intervals since the first that was missed
	require.Zero(t, h.serving(), "away for 4.8 s")
	both(1)
	require.LessOrEqual(t, h.serving(), int64(10), "away for 5.2 s: 0.2 s of the rate")
	both(10)
	require.InDelta(t, 210, h.serving(), 10, "4.2 s of the rate")
	require.NotZero(t, h.replicas[0].Stats().Fallbacks.Load())
}
