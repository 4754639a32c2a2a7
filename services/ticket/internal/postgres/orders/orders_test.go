package orders_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/order"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// world is a sale with orders in several states.
type world struct {
	*storetest.Service
	t *testing.T
	// The first three orders are of user u, refunded is of v, and again is of w for v's seat.
	paid, held, cancelled, refunded, again *reservation.Reservation
	payment                                purchase.Payment
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Service: storetest.New(t), t: t}
	w.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 40)))
	w.paid = w.MustHoldSeats(t, "u", "A-1-1", "A-1-2")
	w.payment = storetest.Payment(w.paid)
	w.Confirm(t, w.paid, w.payment)
	w.held = w.MustHoldSeats(t, "u", "A-1-3")
	w.cancelled = w.MustHoldSeats(t, "u", "A-1-4")
	require.NoError(t, w.Reservations.Cancel(t.Context(), "u", "", w.cancelled.ID))
	w.refunded = w.MustHoldSeats(t, "v", "A-1-20")
	p := storetest.Payment(w.refunded)
	w.Confirm(t, w.refunded, p)
	w.Refund(t, p, refund.User)
	w.again = w.MustHoldSeats(t, "w", "A-1-20")
	w.Confirm(t, w.again, storetest.Payment(w.again))
	return w
}

func (w *world) search(c order.Criteria, limit int, before uuid.UUID) (ids []uuid.UUID) {
	w.t.Helper()
	list, err := w.Orders.SearchOrders(w.t.Context(), c, limit, before)
	require.NoError(w.t, err)
	for _, o := range list {
		ids = append(ids, o.ID)
	}
	return ids
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tickets, err := w.Tickets.ListTickets(t.Context(), "v", 10, uuid.Nil)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		criteria order.Criteria
		want     []*reservation.Reservation
	}{
		"a user":                       {order.Criteria{UserID: "u"}, []*reservation.Reservation{w.cancelled, w.held, w.paid}},
		"a user at another event":      {order.Criteria{UserID: "u", EventID: "f"}, nil},
		"nobody":                       {order.Criteria{UserID: "x"}, nil},
		"an event: what was paid":      {order.Criteria{EventID: "e"}, []*reservation.Reservation{w.again, w.refunded, w.paid}},
		"no event":                     {order.Criteria{EventID: "f"}, nil},
		"a seat: now and before":       {order.Criteria{EventID: "e", SeatID: "A-1-20"}, []*reservation.Reservation{w.again, w.refunded}},
		"a seat that is held":          {order.Criteria{EventID: "e", SeatID: "A-1-3"}, []*reservation.Reservation{w.held}},
		"a seat that was never paid":   {order.Criteria{EventID: "e", SeatID: "A-1-4"}, nil},
		"a seat and its user":          {order.Criteria{EventID: "e", SeatID: "A-1-20", UserID: "w"}, []*reservation.Reservation{w.again}},
		"a ticket":                     {order.Criteria{TicketID: tickets[0].ID}, []*reservation.Reservation{w.refunded}},
		"a ticket of another seat":     {order.Criteria{TicketID: tickets[0].ID, EventID: "e", SeatID: "A-1-1"}, nil},
		"a ticket of another event":    {order.Criteria{TicketID: tickets[0].ID, EventID: "f"}, nil},
		"no ticket":                    {order.Criteria{TicketID: uuid.New()}, nil},
		"an order":                     {order.Criteria{ReservationID: w.held.ID}, []*reservation.Reservation{w.held}},
		"an order of somebody else":    {order.Criteria{ReservationID: w.held.ID, UserID: "v"}, nil},
		"an order, by ticket and seat": {order.Criteria{ReservationID: w.refunded.ID, TicketID: tickets[0].ID, EventID: "e", SeatID: "A-1-20", UserID: "v"}, []*reservation.Reservation{w.refunded}},
	} {
		var want []uuid.UUID
		for _, r := range c.want {
			want = append(want, r.ID)
		}
		require.Equal(t, want, w.search(c.criteria, 10, uuid.Nil), name)
		var paged []uuid.UUID
		for before := uuid.Nil; ; before = paged[len(paged)-1] {
			next := w.search(c.criteria, 1, before)
			if len(next) == 0 {
				break
			}
			paged = append(paged, next...)
		}
		require.Equal(t, want, paged, "%s, page by page", name)
	}
}

// The order of a transferred ticket is found by its present holder and by its former holder.
func TestSearchOfPassedOnTickets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next := uuid.Must(uuid.NewV7())
	_, err := w.Pool.Exec(t.Context(), `
		WITH old AS (UPDATE tickets SET status = 'TRANSFERRED' WHERE reservation_id = $1 AND n = 1 RETURNING *)
		INSERT INTO tickets (ticket_id, reservation_id, n, prev, event_id, user_id, section, seat_id, price, paid, fee, currency, status)
		SELECT $2, reservation_id, n, ticket_id, event_id, 'x', section, seat_id, price, 0, 0, currency, 'VALID' FROM old`, w.paid.ID, next)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{w.paid.ID}, w.search(order.Criteria{UserID: "x"}, 10, uuid.Nil))
	require.Equal(t, []uuid.UUID{w.paid.ID}, w.search(order.Criteria{UserID: "x", EventID: "e", SeatID: "A-1-1"}, 10, uuid.Nil))
	require.Equal(t, []uuid.UUID{w.paid.ID}, w.search(order.Criteria{UserID: "u", EventID: "e", SeatID: "A-1-1"}, 10, uuid.Nil))
	d, err := w.Orders.FindOrder(t.Context(), w.paid.ID)
	require.NoError(t, err)
	require.Len(t, d.Tickets, 3)
	require.Equal(t, ticket.Transferred, d.Tickets[0].Status)
	require.Equal(t, d.Tickets[0].ID, d.Tickets[1].Previous)
	require.Equal(t, "x", d.Tickets[1].UserID)
}

func TestDetail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tickets, err := w.Tickets.ListTickets(t.Context(), "u", 10, uuid.Nil)
	require.NoError(t, err)
	used := tickets[1].Ticket
	door := checkin.Batch{EventID: "e", Device: "gate-1", UserID: "staff", Reads: []checkin.ReadCode{{
		ScanID: uuid.Must(uuid.NewV7()), Code: &ticket.Code{TicketID: used.ID, Serial: 1, EventID: "e", Place: "A-1-1"},
	}}}
	_, err = w.Scans.Record(t.Context(), door)
	require.NoError(t, err)

	d, err := w.Orders.FindOrder(t.Context(), w.paid.ID)
	require.NoError(t, err)
	require.Equal(t, reservation.Sale, d.Origin)
	require.Equal(t, w.payment.ID, d.PaymentID)
	require.Equal(t, reservation.Confirmed, d.Status)
	require.Equal(t, w.paid.Seats, d.Seats)
	require.Len(t, d.Tickets, 2)
	require.Equal(t, []int{1, 2}, []int{d.Tickets[0].N, d.Tickets[1].N})
	require.Equal(t, ticket.Used, d.Tickets[0].Status)
	require.Equal(t, uuid.Nil, d.Tickets[0].Previous)
	require.Len(t, d.Scans, 1)
	require.Equal(t, used.ID, d.Scans[0].TicketID)
	require.Equal(t, checkin.Admitted, d.Scans[0].Result)
	require.Equal(t, "gate-1", d.Scans[0].Device)

	d, err = w.Orders.FindOrder(t.Context(), w.refunded.ID)
	require.NoError(t, err)
	require.Equal(t, reservation.Refunded, d.Status)
	require.Equal(t, ticket.Refunded, d.Tickets[0].Status)
	require.NotEqual(t, uuid.Nil, d.Tickets[0].RefundID)
	require.EqualValues(t, 70, d.Tickets[0].GivenBack)

	w.Clock.Advance(storetest.HoldFor)
	d, err = w.Orders.FindOrder(t.Context(), w.held.ID)
	require.NoError(t, err)
	require.Equal(t, reservation.Expired, d.Status, "as users see it, also before the sweeper")
	require.Empty(t, d.Tickets)
	_, err = w.Orders.FindOrder(t.Context(), uuid.New())
	require.ErrorIs(t, err, reservation.ErrNotFound)
}
