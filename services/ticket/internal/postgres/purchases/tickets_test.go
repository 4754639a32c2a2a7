package purchases_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

func TestTicketsOfAReservation(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9), storetest.Rows("B", 30, 1, 9)))
	g := storetest.Spec("g", event.General, storetest.Admissions("A", 55, 10))
	svc.Put(t, g)
	seats := svc.MustHoldSeats(t, "u", "A-1-2", "B-1-3")
	svc.Confirm(t, seats, storetest.Payment(seats))
	general, err := svc.Holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "g", UserID: "u", Section: "A", Quantity: 2})
	require.NoError(t, err)
	svc.Confirm(t, general, storetest.Payment(general))

	list, err := svc.Tickets.ListTickets(t.Context(), "u", 10, uuid.Nil)
	require.NoError(t, err)
	require.Len(t, list, 4)
	for _, tk := range list[:2] {
		require.Nil(t, tk.Seat)
		require.Equal(t, "A", tk.Section)
		require.EqualValues(t, 55, tk.Price)
		require.Equal(t, general.ID, tk.ReservationID)
	}
	require.Equal(t, seats.Seats[1], *list[2].Seat)
	require.Equal(t, seats.Seats[0], *list[3].Seat)
	require.EqualValues(t, 30, list[2].Price)
	found, err := svc.Tickets.FindTicket(t.Context(), list[3].ID)
	require.NoError(t, err)
	require.Equal(t, list[3].Ticket, found.Ticket)
	require.Equal(t, list[3].Closing, found.Closing)
	secondPage, err := svc.Tickets.ListTickets(t.Context(), "u", 10, list[2].ID)
	require.NoError(t, err)
	require.Len(t, secondPage, 1)
	require.Equal(t, list[3].Ticket, secondPage[0].Ticket)
}

// Reading one's own reservations and tickets uses no connection that payments need.
func TestOwnReadsTakeNoConnectionOfPayments(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	r := svc.MustHoldSeats(t, "u", "A-1-2")
	svc.Confirm(t, r, storetest.Payment(r))
	before := svc.Pool.Stat().AcquireCount()
	_, err := svc.Reservations.Get(t.Context(), "u", r.ID)
	require.NoError(t, err)
	_, _, err = svc.Reservations.List(t.Context(), "u", 10, uuid.Nil)
	require.NoError(t, err)
	list, err := svc.Tickets.ListTickets(t.Context(), "u", 10, uuid.Nil)
	require.NoError(t, err)
	_, err = svc.Tickets.FindTicket(t.Context(), list[0].ID)
	require.NoError(t, err)
	require.Equal(t, before, svc.Pool.Stat().AcquireCount())
}
