package room_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// hall is a simulated event: one store, replicas whose clocks are apart, and time that passes when the test says so.
type hall struct {
	t        *testing.T
	store    *roomtest.Memory
	now      time.Duration
	replicas []*room.Advancer
	boards   []*room.Board
	loads    *loads
	round    room.Round
}

type loads struct {
	load room.Load
	err  error
}

func (l *loads) Load(context.Context, string) (room.Load, error) { return l.load, l.err }

func newHall(t *testing.T, replicas int, settings room.Settings) *hall {
	t.Helper()
	h := &hall{t: t, loads: &loads{err: errors.New("nobody there")}}
	h.store = roomtest.NewMemory(func() time.Time { return epoch.Add(h.now) })
	h.round = roomtest.Open(t, h.store, "e", settings).Round
	for i := range replicas {
		skew := time.Duration(i) * time.Hour
		b := room.NewBoard()
		h.boards = append(h.boards, b)
		h.replicas = append(h.replicas, room.NewAdvancer(b, h.store, h.loads, func() time.Time {
			return epoch.Add(h.now - skew)
		}, slog.New(slog.DiscardHandler)))
	}
	return h
}

func (h *hall) step(replica int) {
	h.t.Helper()
	if err := h.replicas[replica].Step(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hall) arrive(n int) {
	for range n {
		id := uuid.New()
		r, err := h.store.Take(h.t.Context(), "e", h.round, id.String(), []uuid.UUID{id})
		if err != nil {
			h.t.Fatal(err)
		}
		h.store.Claim(r) // everybody comes: the share stays 1
	}
}

func (h *hall) serving() int64 { return roomtest.Read(h.t, h.store, "e").Serving }

// However many replicas step, and whenever, the counter keeps to the configured rate, never goes back, and never passes the last
// position. The clocks of the replicas are hours apart.
func TestAdvancersKeepTheRate(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2, 3, 7} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 1))
			settings := room.DefaultSettings()
			h := newHall(t, replicas, settings)
			h.arrive(600)
			ticks := newTicks(rng, replicas)
			last := int64(0)
			for h.now < 10*time.Second {
				var replica int
				replica, h.now = ticks.next(rng)
				h.step(replica)
				s := h.serving()
				if limit := settings.Rate() * h.now.Seconds(); float64(s) > limit {
					t.Fatalf("%d replicas, seed %d: served %d after %v, at most %.0f are allowed", replicas, seed, s, h.now, limit)
				}
				if s < last || s-last > settings.Batch {
					t.Fatalf("%d replicas, seed %d: from %d to %d at %v", replicas, seed, last, s, h.now)
				}
				last = s
			}
			if want := 0.8 * settings.Rate() * h.now.Seconds(); float64(last) < want {
				t.Errorf("%d replicas, seed %d: only %d served in %v", replicas, seed, last, h.now)
			}
		}
	}
}

// ticks are the replicas' steps: each has a phase of its own and is off by up to a tenth of a read interval.
type ticks []time.Duration

func newTicks(rng *rand.Rand, replicas int) ticks {
	ts := make(ticks, replicas)
	for i := range ts {
		ts[i] = time.Duration(rng.Int64N(int64(room.ReadEvery)))
	}
	return ts
}

func (ts ticks) next(rng *rand.Rand) (int, time.Duration) {
	i := slices.Index(ts, slices.Min(ts))
	now := ts[i]
	ts[i] += room.ReadEvery*9/10 + time.Duration(rng.Int64N(int64(room.ReadEvery/5)))
	return i, now
}

func TestAdvancersStopAtTheLastPosition(t *testing.T) {
	t.Parallel()
	h := newHall(t, 3, room.DefaultSettings())
	for range 60 {
		h.arrive(3)
		h.now += room.ReadEvery
		for i := range h.replicas {
			h.step(i)
		}
		if c := roomtest.Read(t, h.store, "e"); c.Serving > c.Issued {
			t.Fatalf("serving %d of %d", c.Serving, c.Issued)
		}
	}
	if got := h.serving(); got != 180 {
		t.Errorf("served %d, want 180", got)
	}
}

// An idle hour is worth one batch at the most.
func TestAdvancersAfterAnIdleSpell(t *testing.T) {
	t.Parallel()
	h := newHall(t, 2, room.DefaultSettings())
	for i := range h.replicas {
		h.step(i)
	}
	h.now += time.Hour
	h.arrive(5000)
	for i := range h.replicas {
		h.step(i)
		h.step(i)
	}
	if got := h.serving(); got != 500 {
		t.Errorf("served %d at once, want one batch, 500", got)
	}
}

// When the winner dies, another replica goes on after one read interval.
func TestAdvancerTakeover(t *testing.T) {
	t.Parallel()
	h := newHall(t, 2, room.DefaultSettings())
	h.arrive(2000)
	for range 10 {
		h.now += room.ReadEvery / 2
		h.step(0)
		h.now += room.ReadEvery / 2
		h.step(1)
	}
	if won, lost := h.replicas[0].Stats(), h.replicas[1].Stats(); won.Won.Load() < 8 || lost.Won.Load() > 1 {
		t.Errorf("wins: %d and %d, want one replica to go on winning", won.Won.Load(), lost.Won.Load())
	}
	before := h.serving()
	for range 10 { // replica 0 is dead
		h.now += room.ReadEvery
		h.step(1)
	}
	if got := h.serving() - before; got < 180 || got > 200 {
		t.Errorf("served %d in 4 s after the takeover, want 180–200", got)
	}
}

func TestAdvancerDividesByTheShare(t *testing.T) {
	t.Parallel()
	h := newHall(t, 1, room.DefaultSettings())
	for i := range 6000 { // every second one has left
		id := uuid.New()
		if _, err := h.store.Take(t.Context(), "e", h.round, fmt.Sprint(i), []uuid.UUID{id}); err != nil {
			t.Fatal(err)
		}
	}
	claimed := int64(0)
	for range 100 { // 40 s
		h.now += room.ReadEvery
		h.step(0)
		for claimed < h.serving()/2 {
			claimed++
			h.store.Claim(room.Record{EventID: "e", Round: h.round, RequestID: uuid.New()})
		}
	}
	before := h.serving()
	for range 25 { // 10 s
		h.now += room.ReadEvery
		h.step(0)
		for claimed < h.serving()/2 {
			claimed++
			h.store.Claim(room.Record{EventID: "e", Round: h.round, RequestID: uuid.New()})
		}
	}
	if got := h.serving() - before; got < 950 || got > 1050 {
		t.Errorf("served %d in 10 s, want about 1000, so that 500 come through", got)
	}
}

func TestAdvancerMaxInFlight(t *testing.T) {
	t.Parallel()
	settings := room.DefaultSettings()
	settings.Inlet, settings.MaxInFlight = room.MaxInFlight, 120
	h := newHall(t, 2, settings)
	h.arrive(1000)
	h.loads.err = nil
	for range 5 {
		h.now += room.ReadEvery
		h.step(0)
		h.step(1)
	}
	if got := h.serving(); got != 120 {
		t.Errorf("served %d into an empty tier 2, want 120", got)
	}
	h.loads.load = room.Load{Active: 100, Waiting: 10, Arrived: 115} // five have been and gone, five are on the way
	h.now += room.ReadEvery
	h.step(0)
	h.step(1)
	if got := h.serving(); got != 125 {
		t.Errorf("served %d, want 125", got)
	}
	h.loads.err = errors.New("queue is gone")
	before := h.serving()
	for range 10 {
		h.now += room.ReadEvery
		h.step(0)
	}
	if got := h.serving() - before; got < 180 || got > 200 {
		t.Errorf("served %d in 4 s without an answer from tier 2, want what the rate gives", got)
	}
	if h.replicas[0].Stats().Fallbacks.Load() == 0 {
		t.Error("the fallbacks are not counted")
	}
}

func TestAdvancerBoard(t *testing.T) {
	t.Parallel()
	h := newHall(t, 2, room.DefaultSettings())
	if h.boards[0].Ready() {
		t.Error("ready before the first read")
	}
	h.store.Fail(true)
	if err := h.replicas[0].Step(t.Context()); !errors.Is(err, roomtest.ErrDown) || h.boards[0].Ready() {
		t.Errorf("a failed read: %v, ready %v", err, h.boards[0].Ready())
	}
	h.store.Fail(false)
	h.step(0)
	h.step(1)
	if st, ok := h.boards[1].Get("e"); !ok || !st.Active || !h.boards[1].Ready() {
		t.Errorf("after the first read: %v, %+v", ok, st)
	}
	if err := h.store.Stop(t.Context(), "e", h.round); err != nil {
		t.Fatal(err)
	}
	h.step(1)
	if st, _ := h.boards[1].Get("e"); st.Active {
		t.Error("another replica's deactivation is not seen within a read")
	}
}
