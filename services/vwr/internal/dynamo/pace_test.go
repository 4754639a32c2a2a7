package dynamo

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/room"
)

func TestBacklogRefusesWhatWouldWaitTooLong(t *testing.T) {
	t.Parallel()
	var b backlog
	for range 10_000 { // nothing is known yet
		if err := b.enter(); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		b.served(500, 5*time.Second) // 10 ms each
	}
	err := b.enter()
	if !errors.Is(err, errs.ErrOverloaded) || errs.From(err).RetryAfter < 90*time.Second {
		t.Errorf("behind 10,000 of 10 ms: %v", err)
	}
	for range 9_850 {
		b.leave()
	}
	if err := b.enter(); err != nil {
		t.Errorf("behind 150 of 10 ms: %v", err)
	}
}

func TestBacklogLearnsLittleFromSmallGroups(t *testing.T) {
	t.Parallel()
	var b backlog
	b.served(1, 40*time.Millisecond) // the gap between writes, not the cost of one
	for range 5_000 {
		if err := b.enter(); err != nil {
			t.Fatalf("refused after a small group: %v", err)
		}
	}
	b.served(100, 10*time.Second)
	if err := b.enter(); err == nil {
		t.Fatal("not refused though the store is slow")
	}
	b.served(1, 100*time.Microsecond) // it has recovered
	if err := b.enter(); err != nil {
		t.Errorf("refused though the store is fast again: %v", err)
	}
}

func TestPacerKeepsWritesApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pacer{gap: counterGap, last: make(map[string]time.Time)}
		start := time.Now()
		for range 5 {
			if err := p.wait(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 4*counterGap {
			t.Errorf("five writes took %v, want %v", took, 4*counterGap)
		}
		if err := p.wait(t.Context(), "b"); err != nil || time.Since(start) != 4*counterGap {
			t.Error("another event waits for the first")
		}
		for i := range 2 * pacerKeep {
			if err := p.wait(t.Context(), string(rune(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(counterGap + 1)
		}
		if len(p.last) > pacerKeep {
			t.Errorf("%d events are remembered", len(p.last))
		}
	})
}

const busy, busyRound = "busy", room.Round(1)

// opened is a store with a round, for what only its insides tell.
func opened(t *testing.T) *Store {
	t.Helper()
	cfg, db := dynamotest.Tables(t)
	if err := Migrate(t.Context(), db, cfg); err != nil {
		t.Fatal(err)
	}
	s := New(db, cfg, MaxPerWrite, time.Now)
	c := room.Counters{EventID: busy, Round: busyRound, Active: true, Settings: room.DefaultSettings()}
	if err := s.Start(t.Context(), c, 0); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Store) takeOne(t *testing.T) (room.Record, error) {
	t.Helper()
	return s.Take(t.Context(), busy, busyRound, "v", []uuid.UUID{uuid.New()})
}

// Two writes of a counter are a gap apart, however fast the store is.
func TestCounterWritesAreApart(t *testing.T) {
	t.Parallel()
	s := opened(t)
	s.pacer.gap = 300 * time.Millisecond
	start := time.Now()
	for range 4 {
		if _, err := s.takeOne(t); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < 3*s.pacer.gap {
		t.Errorf("four writes in %v, want at least %v", took, 3*s.pacer.gap)
	}
}

// Who would wait too long is told so at once, and the store is not asked.
func TestTakeRefusesWhatWouldWaitTooLong(t *testing.T) {
	t.Parallel()
	s := opened(t)
	s.queue.each, s.queue.waiting = 10*time.Millisecond, 500
	if _, err := s.takeOne(t); !errors.Is(err, errs.ErrOverloaded) {
		t.Errorf("behind 5 s of work: %v", err)
	}
	s.queue.waiting = 0
	if r, err := s.takeOne(t); err != nil || r.Position != 1 {
		t.Errorf("behind nobody: %+v, %v, want position 1", r, err)
	}
	if s.queue.waiting != 0 {
		t.Errorf("%d are waited for after the last has gone", s.queue.waiting)
	}
}
