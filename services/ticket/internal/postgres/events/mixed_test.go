package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// mixed returns an event with a standing section between two sections of seats.
func mixed() event.Event {
	return storetest.Spec("e", event.Mixed, storetest.Rows("A", 70, 1, 3), storetest.Admissions("F", 50, 5), storetest.Rows("B", 60, 1, 2))
}

func TestSeatingFollowsFromTheSections(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	for want, sections := range map[event.Seating][]event.Section{
		event.Mixed:    mixed().Sections,
		event.Assigned: {storetest.Rows("A", 70, 1, 3)},
		event.General:  {storetest.Admissions("F", 50, 5)},
	} {
		for _, seating := range []event.Seating{"", event.Mixed} {
			svc.Put(t, storetest.Spec(string(want), seating, sections...))
			e, err := svc.EventStore.FindEvent(t.Context(), string(want))
			require.NoError(t, err)
			require.Equal(t, want, e.Seating)
			require.EqualValues(t, 1, e.Version, "the same again is no change")
		}
	}
	for _, seating := range []event.Seating{event.Assigned, event.General} {
		_, err := svc.Events.Put(t.Context(), "other", storetest.Spec("other", seating, mixed().Sections...).Spec, nil)
		require.ErrorIs(t, err, event.ErrInvalid)
	}
	svc.RequireInvariants(t)
}

func TestMixedEvent(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, mixed())
	hold := func(section string, n int) (*reservation.Reservation, error) {
		return svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "u" + section, SlotID: "s", Section: section, Quantity: n})
	}
	mustHold := func(section string, n int) *reservation.Reservation {
		t.Helper()
		r, err := hold(section, n)
		require.NoError(t, err)
		return r
	}
	requireFree := func(want ...int64) {
		t.Helper()
		for _, store := range []*storetest.Service{svc, svc.Replica(t)} { // with a cache, and without
			snap, err := store.EventStore.Snapshot(t.Context(), "e")
			require.NoError(t, err)
			require.Equal(t, want, snap.Free)
		}
		list, _, err := svc.Replica(t).Events.List(t.Context(), 1, event.Cursor{})
		require.NoError(t, err)
		require.Equal(t, want, list[0].Free)
	}
	requireFree(3, 5, 2)
	seats, standing := mustHold("A", 2), mustHold("F", 3)
	require.Len(t, seats.Seats, 2)
	require.Equal(t, "F", standing.Section)
	requireFree(1, 2, 2)
	svc.MustHoldSeats(t, "v", "B-1-1", "B-1-2")
	requireFree(1, 2, 0)
	_, err := svc.HoldSeats(t.Context(), "w", "F-1-1")
	require.ErrorIs(t, err, event.ErrSeatNotFound)
	_, err = hold("Z", 1)
	require.ErrorIs(t, err, event.ErrSectionNotFound)
	_, err = svc.Holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "e", UserID: "w", SlotID: "s", Section: "A", Quantity: 1})
	require.ErrorIs(t, err, event.ErrSeatingMismatch)
	_, err = hold("F", 3)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded, "the limit is over all sections")

	payment := storetest.Payment(standing)
	svc.Confirm(t, standing, payment)
	svc.Refund(t, payment, refund.User)
	requireFree(1, 5, 0)
	svc.RequireInvariants(t)

	snap, err := svc.Events.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	layout := snap.Event.Layout()
	require.Equal(t, 5, layout.Seats)
	require.Empty(t, layout.Sections[1].Rows)
	require.Equal(t, []event.LayoutRow{{Name: "1", Seats: 2, X: 0, Y: 3}}, layout.Sections[2].Rows)
	require.Equal(t, []string{"B-1-1"}, snap.Event.SeatsAt([]int{3}))
}

// A mixed event is sold out when both its seats and its standing places are.
func TestMixedEventSoldOut(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Mixed, storetest.Rows("A", 70, 1, 1), storetest.Admissions("F", 50, 1)))
	for i, hold := range []func() (*reservation.Reservation, error){
		func() (*reservation.Reservation, error) { return svc.HoldSeats(t.Context(), "u", "A-1-1") },
		func() (*reservation.Reservation, error) {
			return svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "u", SlotID: "s", Section: "F", Quantity: 1})
		},
	} {
		r, err := hold()
		require.NoError(t, err)
		svc.Confirm(t, r, storetest.Payment(r))
		want := []event.Status{event.StatusOnSale, event.StatusSoldOut}[i]
		snap, err := svc.EventStore.Snapshot(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, want, snap.Status())
		require.Equal(t, want, statuses(t, svc.Replica(t), "e")["e"])
	}
	svc.RequireInvariants(t)
}
