package dynamo_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

type noLoads struct{}

func (noLoads) Load(context.Context, string) (room.Load, error) {
	return room.Load{}, errors.New("nobody there")
}

func newAdvancer(b *room.Board, s room.Source, now func() time.Time) *room.Advancer {
	return room.NewAdvancer(b, s, noLoads{}, now, slog.New(slog.DiscardHandler))
}

// runReplica advances over its own store until stopped.
func runReplica(t *testing.T, s *dynamo.Store) (b *room.Board, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b = room.NewBoard()
	a := newAdvancer(b, s, time.Now)
	var work sync.WaitGroup
	work.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); work.Wait() }
	t.Cleanup(stop)
	return b, stop
}

// Three replicas advance one event on the real store, by the real clock: never faster than configured, never back, never past the last
// position; when one after the other dies, the rest goes on.
func TestAdvancersOnTheRealStore(t *testing.T) {
	t.Parallel()
	open := tables(t, dynamo.MaxPerWrite)
	watch := open()
	const event, people = "advance", 180
	settings := room.Settings{Batch: 30, Interval: time.Second, Inlet: room.Periodic}
	c := roomtest.Open(t, watch, event, settings)
	var work sync.WaitGroup
	for range people {
		work.Go(func() {
			takeOne(t, watch, c, "v")
		})
	}
	work.Wait()
	start := time.Now()
	var boards []*room.Board
	var stops []func()
	for range 3 {
		b, stop := runReplica(t, open())
		boards, stops = append(boards, b), append(stops, stop)
	}
	last := int64(0)
	for i := 0; last < people; i++ {
		got := roomtest.Read(t, watch, event)
		elapsed := time.Since(start)
		if limit := settings.Rate() * elapsed.Seconds(); float64(got.Serving) > limit {
			t.Fatalf("served %d after %v, at most %.0f are allowed", got.Serving, elapsed, limit)
		}
		if got.Serving < last || got.Serving > got.Issued {
			t.Fatalf("serving went from %d to %d of %d", last, got.Serving, got.Issued)
		}
		if last < 60 && got.Serving >= 60 {
			stops[0]()
		}
		if last < 90 && got.Serving >= 90 {
			stops[1]()
		}
		if elapsed > 2*time.Minute {
			t.Fatalf("only %d of %d served after %v", got.Serving, people, elapsed)
		}
		last = got.Serving
	}
	t.Logf("%d served in %v at %v/s", people, time.Since(start), settings.Rate())
	awaitServing(t, boards[2], event, people)
	// Within six seconds, and on a busy machine, one late look at the counter moves what is measured by a tenth and more.
	if st, _ := boards[2].Get(event); st.Rate <= 0 || st.Rate > 1.5*settings.Rate() {
		t.Errorf("measured rate %v, configured %v", st.Rate, settings.Rate())
	}
}

// awaitServing follows a board as a gateway does, until it has heard of a serving counter.
func awaitServing(t *testing.T, b *room.Board, event string, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last := int64(-1)
	for w := b.Watch(); last < want; {
		states, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("the board stopped at %d: %v", last, err)
		}
		for _, st := range states {
			if st.EventID == event && st.Serving < last {
				t.Fatalf("the board went from %d back to %d", last, st.Serving)
			} else if st.EventID == event {
				last = st.Serving
			}
		}
	}
}
