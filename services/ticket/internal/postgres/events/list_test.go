package events_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

// Even if visitors invent cursors, an event's seats are counted at most once in five seconds.
func TestListsShareTheirCounts(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	const events = 4
	for i := range events {
		svc.Put(t, storetest.Spec(fmt.Sprintf("e%d", i), event.Assigned, storetest.Rows("A", 70, 1, 9)))
	}
	before, began := svc.Statements.Sent("CountTaken"), time.Now()
	for limit := 1; limit <= 25; limit++ {
		for _, after := range []event.Cursor{{}, {StartsAt: storetest.Start.AddDate(0, 1, limit), ID: "x"}} {
			page, _, err := svc.Events.List(t.Context(), limit, after)
			require.NoError(t, err)
			require.Len(t, page, min(limit, events))
			for _, s := range page {
				require.Equal(t, []int64{9}, s.Free)
			}
		}
	}
	maxCounts := events * int(1+time.Since(began)/(5*time.Second))
	require.LessOrEqual(t, svc.Statements.Sent("CountTaken")-before, maxCounts)
}

// Reads by visitors must not use the connections that holds and payments need.
func TestReadsUseTheirOwnPool(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	svc.Put(t, storetest.Spec("g", event.General, storetest.Admissions("A", 70, 9)))
	fresh := svc.Replica(t)
	before := svc.Pool.Stat().AcquireCount()
	_, _, err := fresh.Events.List(t.Context(), 10, event.Cursor{})
	require.NoError(t, err)
	for _, id := range []string{"e", "g"} {
		_, err = fresh.Events.Snapshot(t.Context(), id)
		require.NoError(t, err)
		_, err = fresh.Events.Event(t.Context(), id)
		require.NoError(t, err)
	}
	_, err = fresh.Events.Event(t.Context(), "made-up")
	require.ErrorIs(t, err, event.ErrNotFound)
	require.Equal(t, before, svc.Pool.Stat().AcquireCount())
}

// A list reads events and counts at different times, but the counts never exceed the capacity.
func TestListShowsSoldOutEvents(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 1), storetest.Rows("B", 70, 1, 1)))
	g := storetest.Spec("g", event.General, storetest.Admissions("A", 70, 2))
	g.StartsAt = g.StartsAt.Add(time.Hour)
	svc.Put(t, g)
	svc.MustHoldSeats(t, "u", "A-1-1", "B-1-1")
	_, err := svc.Holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "g", UserID: "u", Section: "A", Quantity: 2})
	require.NoError(t, err)
	requireFree := func(free ...[]int64) {
		t.Helper()
		page, _, err := svc.Replica(t).Events.List(t.Context(), 10, event.Cursor{})
		require.NoError(t, err)
		require.Len(t, page, 2)
		for i, s := range page {
			require.Equal(t, event.StatusOnSale, s.Status(), s.Event.ID)
			require.Equal(t, free[i], s.Free, s.Event.ID)
		}
	}
	requireFree([]int64{0}, []int64{0, 0})
	svc.Clock.Advance(storetest.HoldFor) // expired holds count as free even before ExpireDue ends them
	requireFree([]int64{2}, []int64{1, 1})
}
