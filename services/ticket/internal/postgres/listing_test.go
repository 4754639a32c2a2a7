package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// Whatever cursors visitors make up, no event's seats are counted more often than once in five seconds.
func TestListingCountsAnEventOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const events = 4
	for i := range events {
		b.put(t, spec(fmt.Sprintf("e%d", i), event.Assigned, rows("A", 70, 1, 9)))
	}
	before, began := b.statements.sent("CountTaken"), time.Now()
	for limit := 1; limit <= 25; limit++ {
		for _, after := range []event.Cursor{{}, {StartsAt: opening.AddDate(0, 1, limit), ID: "x"}} {
			page, _, err := b.events.List(t.Context(), limit, after)
			require.NoError(t, err)
			require.Len(t, page, min(limit, events))
			for _, s := range page {
				require.Equal(t, []int64{9}, s.Free)
			}
		}
	}
	most := events * int(1+time.Since(began)/(5*time.Second))
	require.LessOrEqual(t, b.statements.sent("CountTaken")-before, most)
}

// Visitors who read must never take the connections that holds and payments need.
func TestReadingTakesNoConnectionOfTheHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 9)))
	b.put(t, spec("g", event.General, admissions("A", 70, 9)))
	fresh := replica(t, b)
	before := b.pool.Stat().AcquireCount()
	_, _, err := fresh.events.List(t.Context(), 10, event.Cursor{})
	require.NoError(t, err)
	for _, id := range []string{"e", "g"} {
		_, err = fresh.events.Snapshot(t.Context(), id)
		require.NoError(t, err)
		_, err = fresh.events.Head(t.Context(), id)
		require.NoError(t, err)
	}
	_, err = fresh.events.Head(t.Context(), "made-up")
	require.ErrorIs(t, err, event.ErrNotFound)
	require.Equal(t, before, b.pool.Stat().AcquireCount())
}

// What a list says of an event's places is counted apart from the list, so it may be of another moment, but never nonsense.
func TestAListedEventHasNothingFree(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 1), rows("B", 70, 1, 1)))
	g := spec("g", event.General, admissions("A", 70, 2))
	g.StartsAt = g.StartsAt.Add(time.Hour)
	b.put(t, g)
	b.mustHold(t, "u", "A-1-1", "B-1-1")
	_, err := b.holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "g", UserID: "u", Section: "A", Quantity: 2})
	require.NoError(t, err)
	list := func(free ...[]int64) {
		t.Helper()
		page, _, err := replica(t, b).events.List(t.Context(), 10, event.Cursor{})
		require.NoError(t, err)
		require.Len(t, page, 2)
		for i, s := range page {
			require.Equal(t, event.StatusOnSale, s.Status(), s.Event.ID)
			require.Equal(t, free[i], s.Free, s.Event.ID)
		}
	}
	list([]int64{0}, []int64{0, 0})
	b.clock.Advance(holdFor) // holds whose time is over are free before anybody has expired them
	list([]int64{2}, []int64{1, 1})
}
