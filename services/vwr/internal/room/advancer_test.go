package room_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// simulation is one event in one store, with replicas whose clocks differ. The test advances time.
type simulation struct {
	t        *testing.T
	store    *roomtest.Memory
	clock    *testkit.Clock
	replicas []*room.Advancer
	caches   []*room.StateCache
	loads    *fakeLoads
	round    room.Round
	claimed  int64 // served positions that were claimed
}

type fakeLoads struct {
	load room.TierTwoLoad
	err  error
}

func (l *fakeLoads) ReadLoad(context.Context, string) (room.TierTwoLoad, error) { return l.load, l.err }

func newSimulation(t *testing.T, replicas int, settings room.Settings) *simulation {
	t.Helper()
	h := &simulation{t: t, clock: testkit.NewClock(epoch), loads: &fakeLoads{err: errors.New("nobody there")}}
	h.store = roomtest.NewMemory(h.clock.Now)
	h.round = roomtest.StartRound(t, h.store, "e", settings).Round
	for i := range replicas {
		skew := time.Duration(i) * time.Hour
		b := room.NewStateCache()
		h.caches = append(h.caches, b)
		h.replicas = append(h.replicas, room.NewAdvancer(b, h.store, h.store, h.loads, func() time.Time {
			return h.clock.Now().Add(-skew)
		}, slog.New(slog.DiscardHandler)))
	}
	return h
}

func (h *simulation) step(replica int) {
	h.t.Helper()
	require.NoError(h.t, h.replicas[replica].Step(h.t.Context()))
}

func (h *simulation) issueAndClaim(n int) {
	for range n {
		id := uuid.New()
		r, err := roomtest.Take(h.t.Context(), h.store, room.Counters{EventID: "e", Round: h.round}, id.String(), id)
		require.NoError(h.t, err)
		h.store.RecordClaim(r) // since all are claimed, the share is 1
	}
}

// issue issues positions without claiming them.
func (h *simulation) issue(n int) {
	for range n {
		id := uuid.New()
		_, err := roomtest.Take(h.t.Context(), h.store, room.Counters{EventID: "e", Round: h.round}, id.String(), id)
		require.NoError(h.t, err)
	}
}

func (h *simulation) serving() int64 { return roomtest.Read(h.t, h.store, "e").Serving }

// With any number of replicas and any timing of their steps, the counter keeps the configured rate,
// never decreases, and never passes the last position. The clocks of the replicas are hours apart.
func TestAdvancersKeepConfiguredRate(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2, 3, 7} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1))
			settings := room.DefaultSettings()
			h := newSimulation(t, replicas, settings)
			h.issueAndClaim(600)
			ticks := newTicks(rng, replicas)
			last := int64(0)
			elapsed := time.Duration(0)
			for elapsed < 10*time.Second {
				var replica int
				replica, elapsed = ticks.next(rng)
				h.clock.Set(epoch.Add(elapsed))
				h.step(replica)
				s := h.serving()
				ok := float64(s) <= settings.Rate()*elapsed.Seconds() && s >= last && s-last <= settings.Batch
				require.True(t, ok, "%d replicas, seed %d: from %d to %d after %v", replicas, seed, last, s, elapsed)
				last = s
			}
			require.GreaterOrEqual(t, float64(last), 0.8*settings.Rate()*elapsed.Seconds(), "%d replicas, seed %d", replicas, seed)
		}
	}
}

// ticks has the time of each replica's next step. The times vary at random by up to a tenth of a
// read interval, and differ between replicas.
type ticks []time.Duration

func newTicks(rng *rand.Rand, replicas int) ticks {
	ts := make(ticks, replicas)
	for i := range ts {
		ts[i] = time.Duration(rng.Int64N(int64(room.ReadInterval)))
	}
	return ts
}

func (ts ticks) next(rng *rand.Rand) (int, time.Duration) {
	i := slices.Index(ts, slices.Min(ts))
	now := ts[i]
	ts[i] += room.ReadInterval*9/10 + time.Duration(rng.Int64N(int64(room.ReadInterval/5)))
	return i, now
}

func TestAdvancersStopAtLastPosition(t *testing.T) {
	t.Parallel()
	h := newSimulation(t, 3, room.DefaultSettings())
	for range 60 {
		h.issueAndClaim(3)
		h.clock.Advance(room.ReadInterval)
		for i := range h.replicas {
			h.step(i)
		}
		c := roomtest.Read(t, h.store, "e")
		require.LessOrEqual(t, c.Serving, c.Issued)
	}
	require.Equal(t, int64(180), h.serving())
}

// After an hour in which nobody waited, at most one batch is served at once.
func TestAdvancersAfterIdlePeriod(t *testing.T) {
	t.Parallel()
	h := newSimulation(t, 2, room.DefaultSettings())
	for i := range h.replicas {
		h.step(i)
	}
	h.clock.Advance(time.Hour)
	h.issueAndClaim(5000)
	for i := range h.replicas {
		h.step(i)
		h.step(i)
	}
	require.Equal(t, int64(500), h.serving(), "one batch at once")
}

// If the replica that moves the counter dies, another takes over after one read interval.
func TestAdvancerTakeover(t *testing.T) {
	t.Parallel()
	h := newSimulation(t, 2, room.DefaultSettings())
	h.issueAndClaim(2000)
	for range 10 {
		h.clock.Advance(room.ReadInterval / 2)
		h.step(0)
		h.clock.Advance(room.ReadInterval / 2)
		h.step(1)
	}
	require.GreaterOrEqual(t, h.replicas[0].Stats().Won.Load(), int64(8), "one replica goes on winning")
	require.LessOrEqual(t, h.replicas[1].Stats().Won.Load(), int64(1))
	before := h.serving()
	for range 10 { // replica 0 is dead
		h.clock.Advance(room.ReadInterval)
		h.step(1)
	}
	require.InDelta(t, 190, h.serving()-before, 10, "served in 4 s after the takeover")
}

func TestAdvancerDividesRateByClaimShare(t *testing.T) {
	t.Parallel()
	h := newSimulation(t, 1, room.DefaultSettings())
	h.issue(12_000)
	h.run(100*time.Second, 0.5) // half of the visitors claim
	before := h.serving()
	h.run(10*time.Second, 0.5)
	require.InDelta(t, 1000, h.serving()-before, 50, "so that 500 come through")
}

func TestAdvancerMaxInFlight(t *testing.T) {
	t.Parallel()
	settings := room.DefaultSettings()
	settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 120
	h := newSimulation(t, 2, settings)
	h.issueAndClaim(1000)
	h.loads.err = nil
	for range 5 {
		h.clock.Advance(room.ReadInterval)
		h.step(0)
		h.step(1)
	}
	require.Equal(t, int64(120), h.serving(), "into an empty tier 2")
	// Five visitors have left, and five are on the way to tier 2.
	h.loads.load = room.TierTwoLoad{Active: 100, Waiting: 10, Arrived: 115}
	h.clock.Advance(room.ReadInterval)
	h.step(0)
	h.step(1)
	require.Equal(t, int64(125), h.serving())
	h.loads.err = errors.New("queue is gone")
	before := h.serving()
	for range 23 {
		h.clock.Advance(room.ReadInterval)
		h.step(0)
	}
	require.InDelta(t, 190, h.serving()-before, 10, "what the rate gives in the 3.8 s after 5 s without an answer from tier 2")
	require.NotZero(t, h.replicas[0].Stats().Fallbacks.Load())
}

// TierTwoFull reports true only while tier 2 is known to be full.
func TestTierTwoFull(t *testing.T) {
	t.Parallel()
	settings := room.DefaultSettings()
	settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 120
	h := newSimulation(t, 1, settings)
	h.issueAndClaim(1000)
	full := func(want bool, why string) {
		t.Helper()
		require.Equal(t, want, h.replicas[0].TierTwoFull("e"), why)
	}
	h.loads.load, h.loads.err = room.TierTwoLoad{Active: 100, Waiting: 20}, nil
	h.step(0)
	full(true, "120 are in tier 2")
	require.Zero(t, h.serving())
	h.loads.load.Active = 90
	h.step(0)
	full(false, "ten are served")
	h.loads.load.Active = 100
	h.step(0)
	full(true, "it has filled up")
	h.loads.err = errors.New("queue is gone")
	h.step(0)
	full(false, "unknown")
	h.loads.err = nil
	h.step(0)
	full(true, "known again")
	h.store.SetDown(true)
	require.Error(t, h.replicas[0].Step(t.Context()))
	full(false, "the counters cannot be read")

	h = newSimulation(t, 1, room.DefaultSettings())
	h.issueAndClaim(1000)
	h.loads.load, h.loads.err = room.TierTwoLoad{Active: 100, Waiting: 20}, nil
	h.step(0)
	full(false, "an inlet that does not depend on tier 2")
}

func TestAdvancerUpdatesStateCache(t *testing.T) {
	t.Parallel()
	h := newSimulation(t, 2, room.DefaultSettings())
	require.False(t, h.caches[0].Ready(), "before the first read")
	h.store.SetDown(true)
	require.ErrorIs(t, h.replicas[0].Step(t.Context()), roomtest.ErrDown)
	require.False(t, h.caches[0].Ready(), "after a failed read")
	h.store.SetDown(false)
	h.step(0)
	h.step(1)
	st, ok := h.caches[1].Get("e")
	require.True(t, ok && st.Active && h.caches[1].Ready(), "after the first read: %v, %+v", ok, st)
	require.NoError(t, h.store.Stop(t.Context(), "e", h.round))
	h.step(1)
	st, _ = h.caches[1].Get("e")
	require.False(t, st.Active, "another replica's deactivation is seen within a read")
}

// A replica's memory does not grow with the events that had a room. Hours after its end a room is
// removed from memory; its visitors then cause a read of the store, and are admitted.
func TestAdvancerForgetsRetiredRounds(t *testing.T) {
	t.Parallel()
	h := newSimulation(t, 1, room.DefaultSettings())
	h.step(0)
	require.NoError(t, h.store.Stop(t.Context(), "e", h.round))
	for hours := range 2 {
		_, known := h.caches[0].Get("e")
		require.True(t, known, "after %d hours", hours)
		h.clock.Advance(time.Hour)
		h.step(0)
	}
	require.Empty(t, h.caches[0].All())
}
