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

func countersOf(round room.Round, active bool, issued, serving int64) room.Counters {
	return room.Counters{EventID: "e", Round: round, Active: active, Issued: issued, Serving: serving, Settings: room.DefaultSettings()}
}

// The order in which reads of an event arrive does not change the result, and no number decreases
// within a round.
func TestStateCacheMergesInAnyOrder(t *testing.T) {
	t.Parallel()
	views := []room.Counters{
		countersOf(1, true, 10, 0), countersOf(1, true, 30, 10), countersOf(1, true, 30, 20), countersOf(1, false, 30, 20),
		countersOf(2, true, 0, 0), countersOf(2, true, 5, 1), countersOf(2, true, 6, 1),
	}
	want := countersOf(2, true, 6, 1)
	for k := range len(views) * len(views) {
		b := room.NewStateCache()
		order := slices.Clone(views)
		order[k%len(order)], order[k/len(order)] = order[k/len(order)], order[k%len(order)]
		last := map[room.Round]int64{}
		for _, v := range order {
			st := b.Merge(v)
			require.GreaterOrEqual(t, st.Serving, last[st.Round], "order %d", k)
			last[st.Round] = st.Serving
		}
		st, _ := b.Get("e")
		require.Equal(t, want, st.Counters, "order %d", k)
	}
}

func TestStateCacheClosedRoundStaysClosed(t *testing.T) {
	t.Parallel()
	b := room.NewStateCache()
	b.Merge(countersOf(1, false, 10, 5))
	st := b.Merge(countersOf(1, true, 12, 5))
	require.False(t, st.Active, "a late view does not open the round again")
	require.Equal(t, int64(12), st.Issued)
	b.Merge(countersOf(2, true, 1, 0))
	b.MarkDeleted("e")
	b.MarkDeleted("unknown")
	st, _ = b.Get("e")
	require.False(t, st.Active, "the event is gone")
	require.Empty(t, b.ActiveIDs())
}

func TestStateCacheResetsRateWithNewRound(t *testing.T) {
	t.Parallel()
	b := room.NewStateCache()
	b.Merge(countersOf(1, true, 10, 0))
	b.SetRate("e", 1, 42)
	b.SetRate("e", 9, 99)
	require.InDelta(t, 42, b.Merge(countersOf(1, true, 11, 0)).Rate, 0)
	require.Zero(t, b.Merge(countersOf(2, true, 0, 0)).Rate, "a new round")
}

func TestStateCacheRecordIssued(t *testing.T) {
	t.Parallel()
	b := room.NewStateCache()
	b.Merge(countersOf(3, true, 10, 0))
	for _, r := range []room.Record{
		{EventID: "e", Round: 3, Position: 12}, {EventID: "e", Round: 3, Position: 11}, {EventID: "e", Round: 2, Position: 50}, {EventID: "x", Position: 9},
	} {
		b.RecordIssued(r)
	}
	st, _ := b.Get("e")
	require.Equal(t, int64(12), st.Issued)
}

func TestWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := room.NewStateCache()
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
		b.Merge(countersOf(1, true, 1, 0))
		synctest.Wait()
		select {
		case u := <-updates:
			require.Fail(t, "a snapshot before the cache was loaded", u)
		default:
		}
		b.MarkLoaded()
		snapshot := (<-updates).states
		require.Len(t, snapshot, 1)
		require.Equal(t, int64(1), snapshot[0].Issued)
		for i := range int64(5) { // the watcher gets only the last one
			b.Merge(countersOf(1, true, 2+i, 0))
		}
		synctest.Wait()
		first := <-updates
		for len(first.states) == 1 && first.states[0].Issued < 6 {
			first = <-updates
		}
		b.Merge(countersOf(1, true, 6, 0)) // no change
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

func TestWatcherStartsWithSnapshot(t *testing.T) {
	t.Parallel()
	b := room.NewStateCache()
	b.MarkLoaded()
	states, err := b.Watch().Next(t.Context())
	require.NoError(t, err)
	require.Empty(t, states)
	for i := range 3 {
		b.Merge(room.Counters{EventID: fmt.Sprint("e", 2-i), Round: 1, Active: true})
	}
	states, err = b.Watch().Next(t.Context())
	require.NoError(t, err)
	require.Len(t, states, 3)
	require.Equal(t, []string{"e0", "e1", "e2"}, []string{states[0].EventID, states[1].EventID, states[2].EventID})
}

// ForgetClosed drops a closed room that was not read since its last call. It keeps open rooms, and
// rooms that were closed or read since then.
func TestStateCacheForgetsClosedRooms(t *testing.T) {
	t.Parallel()
	b := room.NewStateCache()
	merge := func(id string, round room.Round, active bool) {
		b.Merge(room.Counters{EventID: id, Round: round, Active: active})
	}
	known := func() (ids []string) {
		for _, st := range b.All() {
			ids = append(ids, st.EventID)
		}
		return ids
	}
	merge("open", 1, true)
	merge("closed", 1, false)
	merge("read", 1, false)
	merge("reopened", 1, false)
	b.ForgetClosed()
	require.Equal(t, []string{"closed", "open", "read", "reopened"}, known(), "after the first sweep")
	merge("read", 1, false)
	merge("reopened", 2, true)
	merge("new", 1, false)
	b.ForgetClosed()
	require.Equal(t, []string{"new", "open", "read", "reopened"}, known())
	merge("reopened", 2, false)
	b.ForgetClosed()
	require.Equal(t, []string{"open", "reopened"}, known(), "it was closed since the last sweep")
	b.ForgetClosed()
	require.Equal(t, []string{"open"}, known())
	merge("closed", 2, true)
	b.ForgetClosed()
	b.ForgetClosed()
	require.Equal(t, []string{"closed", "open"}, known(), "a later round of a room that was forgotten")
}
