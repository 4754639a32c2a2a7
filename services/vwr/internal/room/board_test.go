package room_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"urr.guru/services/vwr/internal/room"
)

func view(round room.Round, active bool, issued, serving int64) room.Counters {
	return room.Counters{EventID: "e", Round: round, Active: active, Issued: issued, Serving: serving, Settings: room.DefaultSettings()}
}

// In whatever order views of an event arrive, the board ends with the same, and never shows a lower number within a round.
func TestBoardMergesInAnyOrder(t *testing.T) {
	t.Parallel()
	views := []room.Counters{
		view(1, true, 10, 0), view(1, true, 30, 10), view(1, true, 30, 20), view(1, false, 30, 20),
		view(2, true, 0, 0), view(2, true, 5, 1), view(2, true, 6, 1),
	}
	want := view(2, true, 6, 1)
	for k := range len(views) * len(views) {
		b := room.NewBoard()
		order := slices.Clone(views)
		order[k%len(order)], order[k/len(order)] = order[k/len(order)], order[k%len(order)]
		last := map[room.Round]int64{}
		for _, v := range order {
			st := b.Apply(v)
			if st.Serving < last[st.Round] {
				t.Fatalf("order %d: serving went back to %d", k, st.Serving)
			}
			last[st.Round] = st.Serving
		}
		if st, _ := b.Get("e"); st.Counters != want {
			t.Errorf("order %d: ends with %+v", k, st.Counters)
		}
	}
}

func TestBoardClosedRoundStaysClosed(t *testing.T) {
	t.Parallel()
	b := room.NewBoard()
	b.Apply(view(1, false, 10, 5))
	if st := b.Apply(view(1, true, 12, 5)); st.Active || st.Issued != 12 {
		t.Errorf("a late view opened the round again: %+v", st)
	}
	b.Apply(view(2, true, 1, 0))
	b.Gone("e")
	b.Gone("unknown")
	if st, _ := b.Get("e"); st.Active || len(b.Active()) != 0 {
		t.Error("an event that is gone is still active")
	}
}

func TestBoardRateBelongsToItsRound(t *testing.T) {
	t.Parallel()
	b := room.NewBoard()
	b.Apply(view(1, true, 10, 0))
	b.Measured("e", 1, 42)
	b.Measured("e", 9, 99)
	if st := b.Apply(view(1, true, 11, 0)); st.Rate != 42 {
		t.Errorf("rate %v, want 42", st.Rate)
	}
	if st := b.Apply(view(2, true, 0, 0)); st.Rate != 0 {
		t.Errorf("rate of a new round %v, want 0", st.Rate)
	}
}

func TestBoardGave(t *testing.T) {
	t.Parallel()
	b := room.NewBoard()
	b.Apply(view(3, true, 10, 0))
	for _, r := range []room.Record{
		{EventID: "e", Round: 3, Position: 12}, {EventID: "e", Round: 3, Position: 11}, {EventID: "e", Round: 2, Position: 50}, {EventID: "x", Position: 9},
	} {
		b.Gave(r)
	}
	if st, _ := b.Get("e"); st.Issued != 12 {
		t.Errorf("issued %d, want 12", st.Issued)
	}
}

func TestWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := room.NewBoard()
		type update struct {
			states []room.State
			err    error
		}
		updates := make(chan update)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			w := b.Watch()
			for {
				states, err := w.Next(ctx)
				updates <- update{states, err}
				if err != nil {
					return
				}
			}
		}()
		b.Apply(view(1, true, 1, 0))
		synctest.Wait()
		select {
		case u := <-updates:
			t.Fatalf("a snapshot before the board was loaded: %v", u)
		default:
		}
		b.Loaded()
		if u := <-updates; len(u.states) != 1 || u.states[0].Issued != 1 {
			t.Errorf("the snapshot: %+v", u)
		}
		for i := range int64(5) { // coalesced: the watcher sees the last of them
			b.Apply(view(1, true, 2+i, 0))
		}
		synctest.Wait()
		first := <-updates
		for len(first.states) == 1 && first.states[0].Issued < 6 {
			first = <-updates
		}
		b.Apply(view(1, true, 6, 0)) // nothing new
		synctest.Wait()
		select {
		case u := <-updates:
			t.Errorf("an update without a change: %+v", u)
		case <-time.After(time.Hour):
		}
		stop()
		if u := <-updates; !errors.Is(u.err, context.Canceled) {
			t.Errorf("at the end: %v", u.err)
		}
	})
}

func TestWatcherStartsWithAnEmptySnapshot(t *testing.T) {
	t.Parallel()
	b := room.NewBoard()
	b.Loaded()
	if states, err := b.Watch().Next(t.Context()); err != nil || len(states) != 0 {
		t.Errorf("got %v, %v", states, err)
	}
	for i := range 3 {
		b.Apply(room.Counters{EventID: fmt.Sprint("e", 2-i), Round: 1, Active: true})
	}
	if states, _ := b.Watch().Next(t.Context()); len(states) != 3 || states[0].EventID != "e0" || states[2].EventID != "e2" {
		t.Errorf("the snapshot: %+v", states)
	}
}
