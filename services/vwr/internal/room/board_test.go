package room_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
			require.GreaterOrEqual(t, st.Serving, last[st.Round], "order %d", k)
			last[st.Round] = st.Serving
		}
		st, _ := b.Get("e")
		require.Equal(t, want, st.Counters, "order %d", k)
	}
}

func TestBoardClosedRoundStaysClosed(t *testing.T) {
	t.Parallel()
	b := room.NewBoard()
	b.Apply(view(1, false, 10, 5))
	st := b.Apply(view(1, true, 12, 5))
	require.False(t, st.Active, "a late view does not open the round again")
	require.Equal(t, int64(12), st.Issued)
	b.Apply(view(2, true, 1, 0))
	b.Gone("e")
	b.Gone("unknown")
	st, _ = b.Get("e")
	require.False(t, st.Active, "the event is gone")
	require.Empty(t, b.Active())
}

func TestBoardRateBelongsToItsRound(t *testing.T) {
	t.Parallel()
	b := room.NewBoard()
	b.Apply(view(1, true, 10, 0))
	b.Measured("e", 1, 42)
	b.Measured("e", 9, 99)
	require.InDelta(t, 42, b.Apply(view(1, true, 11, 0)).Rate, 0)
	require.Zero(t, b.Apply(view(2, true, 0, 0)).Rate, "a new round")
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
	st, _ := b.Get("e")
	require.Equal(t, int64(12), st.Issued)
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
			require.Fail(t, "a snapshot before the board was loaded", u)
		default:
		}
		b.Loaded()
		snapshot := (<-updates).states
		require.Len(t, snapshot, 1)
		require.Equal(t, int64(1), snapshot[0].Issued)
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
			require.Fail(t, "an update without a change", u)
		case <-time.After(time.Hour):
		}
		stop()
		require.ErrorIs(t, (<-updates).err, context.Canceled)
	})
}

func TestWatcherStartsWithAnEmptySnapshot(t *testing.T) {
	t.Parallel()
	b := room.NewBoard()
	b.Loaded()
	states, err := b.Watch().Next(t.Context())
	require.NoError(t, err)
	require.Empty(t, states)
	for i := range 3 {
		b.Apply(room.Counters{EventID: fmt.Sprint("e", 2-i), Round: 1, Active: true})
	}
	states, err = b.Watch().Next(t.Context())
	require.NoError(t, err)
	require.Len(t, states, 3)
	require.Equal(t, []string{"e0", "e1", "e2"}, []string{states[0].EventID, states[1].EventID, states[2].EventID})
}
