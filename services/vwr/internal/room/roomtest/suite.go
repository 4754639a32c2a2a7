package roomtest

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"urr.guru/services/vwr/internal/room"
)

// Suite is what every store must do. replica is called twice or more and returns stores over the same data.
func Suite(t *testing.T, replica func(t *testing.T) Store) {
	t.Helper()
	a, b := replica(t), replica(t)
	t.Run("rounds", func(t *testing.T) { rounds(t, a, b) })
	t.Run("serving", func(t *testing.T) { serving(t, a, b) })
	t.Run("same position at two replicas", func(t *testing.T) { samePosition(t, a, b) })
	t.Run("unique and increasing", func(t *testing.T) { unique(t, a, b) })
	t.Run("other round", func(t *testing.T) { otherRound(t, a) })
}

// Open starts a round of an event that had none.
func Open(t *testing.T, s Store, eventID string, settings room.Settings) room.Counters {
	t.Helper()
	c := room.Counters{EventID: eventID, Active: true, Round: 1_700_000_000_000_000, Settings: settings}
	if err := s.Start(t.Context(), c, 0); err != nil {
		t.Fatalf("start: %v", err)
	}
	return Read(t, s, eventID)
}

// Read is the event as the store has it.
func Read(t *testing.T, s Store, eventID string) room.Counters {
	t.Helper()
	c, found, err := s.Read(t.Context(), eventID)
	if err != nil || !found {
		t.Fatalf("read %s: found %v, %v", eventID, found, err)
	}
	return c
}

func stale(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, room.ErrStale) {
		t.Errorf("%s: got %v, want ErrStale", what, err)
	}
}

func active(t *testing.T, s Store, eventID string, also ...string) (room.Counters, bool) {
	t.Helper()
	cs, err := s.Active(t.Context(), also)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(cs, func(c room.Counters) bool { return c.EventID == eventID })
	if i < 0 {
		return room.Counters{}, false
	}
	return cs[i], true
}

func rounds(t *testing.T, a, b Store) {
	t.Helper()
	ctx := t.Context()
	const event = "rounds"
	if _, found, err := a.Read(ctx, event); found || err != nil {
		t.Fatalf("an event without a room: found %v, %v", found, err)
	}
	settings := room.Settings{Batch: 7, Interval: 3_000_000_000, Inlet: room.MaxInFlight, MaxInFlight: 9}
	c := Open(t, a, event, settings)
	if !c.Active || c.Settings != settings || c.Issued != 0 || c.UpdatedAt.IsZero() {
		t.Errorf("after the start: %+v", c)
	}
	if _, ok := active(t, b, event); !ok {
		t.Error("another replica does not find the round in the registry")
	}
	stale(t, "starting an active event", b.Start(ctx, room.Counters{EventID: event, Active: true, Round: c.Round + 1}, c.Round))
	stale(t, "configuring another round", b.Configure(ctx, event, c.Round+1, settings))
	stale(t, "stopping another round", b.Stop(ctx, event, c.Round+1))
	if _, ok := active(t, b, event); !ok {
		t.Error("a stop that failed took the event out of the registry")
	}
	if _, err := a.Take(ctx, event, c.Round, "v", []uuid.UUID{uuid.New()}); err != nil {
		t.Fatal(err)
	}
	settings.Batch = 8
	if err := b.Configure(ctx, event, c.Round, settings); err != nil {
		t.Fatal(err)
	}
	if got := Read(t, a, event); got.Settings != settings || got.Issued != 1 {
		t.Errorf("after the change: %+v", got)
	}
	if err := b.Stop(ctx, event, c.Round); err != nil {
		t.Fatal(err)
	}
	if _, ok := active(t, a, event); ok {
		t.Error("a stopped event is in the registry")
	}
	if got, ok := active(t, a, event, event); !ok || got.Active {
		t.Errorf("a stopped event that was asked for: %v, %+v", ok, got)
	}
	stale(t, "starting with the wrong earlier round", a.Start(ctx, room.Counters{EventID: event, Active: true, Round: c.Round + 2}, 0))
	if _, ok := active(t, a, event); ok {
		t.Error("a start that failed entered the event in the registry")
	}
	next := room.Counters{EventID: event, Active: true, Round: c.Round + 2, Settings: settings}
	if err := a.Start(ctx, next, c.Round); err != nil {
		t.Fatal(err)
	}
	if got := Read(t, b, event); got.Issued != 0 || got.Round != next.Round || !got.Active {
		t.Errorf("the second round: %+v", got)
	}
}

func serving(t *testing.T, a, b Store) {
	t.Helper()
	ctx := t.Context()
	const event = "serving"
	c := Open(t, a, event, room.DefaultSettings())
	for range 5 {
		if _, err := a.Take(ctx, event, c.Round, "v", []uuid.UUID{uuid.New()}); err != nil {
			t.Fatal(err)
		}
	}
	stale(t, "past the last position", a.Serve(ctx, c, 6))
	if err := a.Serve(ctx, c, 3); err != nil {
		t.Fatal(err)
	}
	stale(t, "from a value that is gone", b.Serve(ctx, c, 4))
	other := Read(t, b, event)
	other.Round++
	stale(t, "in another round", b.Serve(ctx, other, 4))
	if err := a.Stop(ctx, event, c.Round); err != nil {
		t.Fatal(err)
	}
	stale(t, "in a closed room", b.Serve(ctx, Read(t, b, event), 4))
	if got := Read(t, a, event).Serving; got != 3 {
		t.Errorf("serving %d, want 3", got)
	}
}

func samePosition(t *testing.T, a, b Store) {
	t.Helper()
	ctx := t.Context()
	const event = "same"
	c := Open(t, a, event, room.DefaultSettings())
	ids := []uuid.UUID{uuid.New(), uuid.New()}
	first, err := a.Take(ctx, event, c.Round, "v", ids[1:])
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.Take(ctx, event, c.Round, "v", ids) // the second id is that of an older key
	if err != nil || again != first {
		t.Errorf("again: %+v, %v, want %+v", again, err, first)
	}
	found, ok, err := b.Find(ctx, event, ids[1])
	if err != nil || !ok || found != first {
		t.Errorf("found: %+v, %v, %v, want %+v", found, ok, err, first)
	}
	if _, ok, err := b.Find(ctx, event, uuid.New()); ok || err != nil {
		t.Errorf("an unknown id: %v, %v", ok, err)
	}
	if n := Read(t, a, event).Issued; n != 1 {
		t.Errorf("issued %d, want 1", n)
	}
}

// unique lets many visitors come to two replicas at once, each twice: a double click.
func unique(t *testing.T, a, b Store) {
	t.Helper()
	const event, visitors = "unique", 150
	c := Open(t, a, event, room.DefaultSettings())
	var (
		mu   sync.Mutex
		got  = make(map[uuid.UUID][]int64)
		work sync.WaitGroup
	)
	for range visitors {
		id := uuid.New()
		for _, s := range []Store{a, b} {
			work.Go(func() {
				r := insist(t, s, c, id)
				mu.Lock()
				defer mu.Unlock()
				got[id] = append(got[id], r.Position)
			})
		}
	}
	work.Wait()
	issued := Read(t, a, event).Issued
	seen := make(map[int64]bool)
	for id, positions := range got {
		if len(positions) != 2 || positions[0] != positions[1] {
			t.Errorf("visitor %s got %v", id, positions)
		}
		if p := positions[0]; seen[p] || p < 1 || p > issued {
			t.Errorf("position %d twice or not within 1–%d", p, issued)
		}
		seen[positions[0]] = true
	}
	late, err := b.Take(t.Context(), event, c.Round, "late", []uuid.UUID{uuid.New()})
	if err != nil || late.Position != issued+1 {
		t.Errorf("who comes later got %d, %v, want %d", late.Position, err, issued+1)
	}
}

// insist asks again, as a page does, while a slow store answers that it is unavailable.
func insist(t *testing.T, s Store, c room.Counters, id uuid.UUID) room.Record {
	t.Helper()
	for try := 1; ; try++ {
		r, err := s.Take(t.Context(), c.EventID, c.Round, id.String(), []uuid.UUID{id})
		if err == nil {
			return r
		}
		if try == 5 || !errors.Is(err, room.ErrUnavailable) {
			t.Error(err)
			return r
		}
	}
}

func otherRound(t *testing.T, s Store) {
	t.Helper()
	const event = "other-round"
	_, err := s.Take(t.Context(), event, 1, "v", []uuid.UUID{uuid.New()})
	stale(t, "no room", err)
	c := Open(t, s, event, room.DefaultSettings())
	_, err = s.Take(t.Context(), event, c.Round-1, "v", []uuid.UUID{uuid.New()})
	stale(t, "an earlier round", err)
	if err := s.Stop(t.Context(), event, c.Round); err != nil {
		t.Fatal(err)
	}
	_, err = s.Take(t.Context(), event, c.Round, "v", []uuid.UUID{uuid.New()})
	stale(t, "a closed room", err)
}
