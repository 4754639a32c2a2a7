package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// statuses reads the statuses of sales, by id.
func statuses(t *testing.T, svc *storetest.Service, ids ...string) map[string]event.Status {
	t.Helper()
	found, err := svc.EventStore.SaleStatuses(t.Context(), ids)
	require.NoError(t, err)
	byID := make(map[string]event.Status, len(found))
	for id, s := range found {
		byID[id] = s.Status
	}
	return byID
}

func TestSaleStatuses(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	ids := []string{"soon", "on", "paused", "over", "cancelled", "ended", "nowhere", "campaign"}
	for _, id := range ids[:6] {
		s := storetest.Spec(id, event.General, storetest.Admissions("A", 70, 2))
		switch id {
		case "soon":
			s.SalesOpenAt = storetest.Start.Add(time.Hour)
		case "over":
			s.SalesCloseAt = storetest.Start
		}
		svc.Put(t, s)
	}
	_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET state = upper(event_id) WHERE event_id IN ('paused', 'cancelled', 'ended')`)
	require.NoError(t, err)
	_, err = svc.Events.ChangeLine(t.Context(), "campaign", event.LineChange{})
	require.NoError(t, err)

	require.Equal(t, map[string]event.Status{
		"soon": event.StatusScheduled, "on": event.StatusOnSale, "paused": event.StatusPaused, "over": event.StatusClosed,
		"cancelled": event.StatusPaused, "ended": event.StatusCancelled,
	}, statuses(t, svc, ids...))
	found, err := svc.EventStore.SaleStatuses(t.Context(), ids[:1])
	require.NoError(t, err)
	version := found["soon"].SettingsVersion
	require.NotZero(t, version)
	require.Equal(t, map[string]event.SaleStatus{
		"soon": {
			Status: event.StatusScheduled, OpensAt: storetest.Start.Add(time.Hour), ClosesAt: storetest.Start.Add(24 * time.Hour),
			SettingsVersion: version,
		},
	}, found)
	_, err = svc.Events.ChangeLine(t.Context(), "soon", event.LineChange{Threshold: new(int64(1))})
	require.NoError(t, err)
	found, err = svc.EventStore.SaleStatuses(t.Context(), ids[:1])
	require.NoError(t, err)
	require.Greater(t, found["soon"].SettingsVersion, version)
	svc.Clock.Advance(time.Hour)
	require.Equal(t, event.StatusOnSale, statuses(t, svc, "soon")["soon"])
}

// A sale is sold out when no place is free or may become free by itself, as held places may.
func TestSoldOut(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 1), storetest.Rows("B", 70, 1, 1)))
	g := storetest.Spec("g", event.General, storetest.Admissions("A", 70, 2), storetest.Admissions("B", 70, 1))
	g.StartsAt = g.StartsAt.Add(time.Hour)
	svc.Put(t, g)
	holdGeneral := func(section string, n int) *reservation.Reservation {
		r, err := svc.Holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "g", UserID: "u", Section: section, Quantity: n})
		require.NoError(t, err)
		return r
	}
	requireStatus := func(want event.Status) {
		t.Helper()
		require.Equal(t, map[string]event.Status{"e": want, "g": want}, statuses(t, svc, "e", "g"))
		fresh := svc.Replica(t).Events
		for _, id := range []string{"e", "g"} {
			s, err := fresh.Snapshot(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, want, s.Status(), "%s itself says the same", id)
		}
		page, _, err := fresh.List(t.Context(), 10, event.Cursor{})
		require.NoError(t, err)
		for _, s := range page {
			require.Equal(t, want, s.Status(), "%s, listed", s.Event.ID)
		}
	}
	held := []*reservation.Reservation{svc.MustHoldSeats(t, "u", "A-1-1", "B-1-1"), holdGeneral("A", 2), holdGeneral("B", 1)}
	requireStatus(event.StatusOnSale)
	paid := make([]purchase.Payment, len(held))
	for i, r := range held {
		paid[i] = storetest.Payment(r)
		svc.Confirm(t, r, paid[i])
		if i == 1 {
			require.Equal(t, map[string]event.Status{"e": event.StatusSoldOut, "g": event.StatusOnSale}, statuses(t, svc, "e", "g"))
		}
	}
	requireStatus(event.StatusSoldOut)
	for _, p := range paid {
		svc.Refund(t, p, refund.User)
	}
	requireStatus(event.StatusSoldOut) // while few places are left, returned ones come back later
	svc.Clock.Advance(20 * time.Minute)
	require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
	requireStatus(event.StatusOnSale)
}

// One statement reads the statuses of all sales. It takes no connection from the pool of holds.
func TestSaleStatusesAreReadTogether(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids[:3] {
		svc.Put(t, storetest.Spec(id, event.General, storetest.Admissions("A", 70, 2)))
	}
	before := svc.Pool.Stat().AcquireCount()
	found, _, err := svc.Events.SaleStatuses(t.Context(), ids)
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.Equal(t, 1, svc.Statements.Sent("SaleStandings"))
	require.Equal(t, before, svc.Pool.Stat().AcquireCount())
}
