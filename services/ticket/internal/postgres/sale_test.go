package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// standings are where sales stand now, by id.
func (b *bundle) standings(t *testing.T, ids ...string) map[string]event.Status {
	t.Helper()
	found, err := b.store.Standings(t.Context(), ids)
	require.NoError(t, err)
	statuses := make(map[string]event.Status, len(found))
	for id, s := range found {
		statuses[id] = s.Status
	}
	return statuses
}

func TestWhereASaleStands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []string{"soon", "on", "paused", "over", "cancelled", "nowhere", "campaign"}
	for _, id := range ids[:5] {
		s := spec(id, event.General, admissions("A", 70, 2))
		switch id {
		case "soon":
			s.SalesOpenAt = opening.Add(time.Hour)
		case "over":
			s.SalesCloseAt = opening
		}
		b.put(t, s)
	}
	_, err := b.pool.Exec(t.Context(), `UPDATE events SET state = upper(event_id) WHERE event_id IN ('paused', 'cancelled')`)
	require.NoError(t, err)
	_, err = b.events.ChangeLine(t.Context(), "campaign", event.LineChange{})
	require.NoError(t, err)

	require.Equal(t, map[string]event.Status{
		"soon": event.StatusScheduled, "on": event.StatusOnSale, "paused": event.StatusPaused, "over": event.StatusClosed,
		"cancelled": event.StatusCancelled,
	}, b.standings(t, ids...))
	found, err := b.store.Standings(t.Context(), ids[:1])
	require.NoError(t, err)
	version := found["soon"].SettingsVersion
	require.NotZero(t, version)
	require.Equal(t, map[string]event.Standing{
		"soon": {Status: event.StatusScheduled, OpensAt: opening.Add(time.Hour), ClosesAt: opening.Add(24 * time.Hour), SettingsVersion: version},
	}, found)
	_, err = b.events.ChangeLine(t.Context(), "soon", event.LineChange{Threshold: ptr(int64(1))})
	require.NoError(t, err)
	found, err = b.store.Standings(t.Context(), ids[:1])
	require.NoError(t, err)
	require.Greater(t, found["soon"].SettingsVersion, version)
	b.clock.Advance(time.Hour)
	require.Equal(t, event.StatusOnSale, b.standings(t, "soon")["soon"])
}

// A sale is sold out when nothing can come back by itself: what is held may.
func TestASaleIsSoldOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 1), rows("B", 70, 1, 1)))
	g := spec("g", event.General, admissions("A", 70, 2), admissions("B", 70, 1))
	g.StartsAt = g.StartsAt.Add(time.Hour)
	b.put(t, g)
	general := func(section string, n int) *reservation.Reservation {
		r, err := b.holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "g", UserID: "u", Section: section, Quantity: n})
		require.NoError(t, err)
		return r
	}
	says := func(want event.Status) {
		t.Helper()
		require.Equal(t, map[string]event.Status{"e": want, "g": want}, b.standings(t, "e", "g"))
		fresh := replica(t, b).events
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
	held := []*reservation.Reservation{b.mustHold(t, "u", "A-1-1", "B-1-1"), general("A", 2), general("B", 1)}
	says(event.StatusOnSale)
	paid := make([]reservation.Payment, len(held))
	for i, r := range held {
		paid[i] = payment(r)
		b.paid(t, r, paid[i])
		if i == 1 {
			require.Equal(t, map[string]event.Status{"e": event.StatusSoldOut, "g": event.StatusOnSale}, b.standings(t, "e", "g"))
		}
	}
	says(event.StatusSoldOut)
	for i, r := range held {
		b.settle(t, reservation.PaymentEvent{Key: r.ID.String(), ReservationID: r.ID, Payment: paid[i], Refunded: true, Cause: reservation.CauseUser})
	}
	says(event.StatusOnSale)
}

// However many lines there are, they cost one statement, and no connection of the holds.
func TestSalesAreReadTogether(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids[:3] {
		b.put(t, spec(id, event.General, admissions("A", 70, 2)))
	}
	before := b.pool.Stat().AcquireCount()
	found, _, err := b.events.Standings(t.Context(), ids)
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.Equal(t, 1, b.statements.sent("SaleStandings"))
	require.Equal(t, before, b.pool.Stat().AcquireCount())
}
