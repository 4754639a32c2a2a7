package voids_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/order"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
	"urr.guru/services/ticket/internal/void"
)

// shop is a sale of seats (A) and admissions (F), whose tickets may be passed on for money. Each
// place costs 70 and a fee of 5. What is given back is for sale again an hour later.
type shop struct {
	*storetest.Service

	t *testing.T
}

func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{Service: storetest.New(t), t: t}
	e := storetest.Spec("e", event.Mixed, storetest.Rows("A", 70, 4, 10), storetest.Admissions("F", 70, 10))
	e.Transferable, e.ReturnWithin = new(event.TransferPriced), new(int32(3600))
	s.Put(t, e)
	s.SetFees(t, 5)
	return s
}

// buy sells seats to a user.
func (s *shop) buy(user string, seats ...string) (*reservation.Reservation, purchase.Payment, []uuid.UUID) {
	s.t.Helper()
	r := s.MustHoldSeats(s.t, user, seats...)
	p := storetest.Payment(r)
	s.Confirm(s.t, r, p)
	return r, p, s.TicketIDs(s.t, p)
}

func (s *shop) find(id uuid.UUID) *ticket.Ticket {
	s.t.Helper()
	found, err := s.Tickets.FindTicket(s.t.Context(), id)
	require.NoError(s.t, err)
	return &found.Ticket
}

func (s *shop) void(req void.Request) (void.Voided, error) {
	req.Operator, req.Reason = "op", "again"
	return s.Voids.Void(s.t.Context(), req)
}

// requireNotVoidable fails unless err says that the tickets cannot be voided, for these reasons.
func requireNotVoidable(t *testing.T, err error, reasons string) {
	t.Helper()
	require.ErrorIs(t, err, void.ErrNotVoidable)
	require.Equal(t, reasons, errs.From(err).Metadata["ticketReasons"])
}

func TestVoidInEveryStatus(t *testing.T) {
	t.Parallel()
	storetest.ForEachTicketStatus(t, func(t *testing.T, in storetest.TicketInStatus) {
		t.Helper()
		before := in.OutboxEvents(t, in.Reservation.ID)
		v, err := in.Voids.Void(t.Context(), void.Request{TicketID: in.Ticket.ID, Operator: "op", Reason: "stolen card"})
		got, findErr := in.Tickets.FindTicket(t.Context(), in.Ticket.ID)
		require.NoError(t, findErr)
		switch in.Status {
		case ticket.Valid, ticket.Used:
			require.NoError(t, err)
			require.Equal(t, []uuid.UUID{in.Ticket.ID}, v.New)
			require.Equal(t, reservation.Confirmed, v.Status)
			require.False(t, v.OfflineDoors)
			want := in.Ticket
			want.Status = ticket.Voided
			require.Equal(t, want, got.Ticket, "what was paid stays paid")
			last := in.OutboxEvents(t, in.Reservation.ID)[len(before)]
			require.Equal(t, []string{"TICKETS_VOIDED", "CONFIRMED", "SALE"}, []string{last.Type, last.Status, last.Origin})
			require.EqualValues(t, 1, last.Quantity)
			require.Equal(t, []string{in.Ticket.Seat.ID}, last.SeatIDs)
			require.EqualValues(t, 1, in.Count(t, `SELECT count(*) FROM seats WHERE seat_id = $1 AND status = 'HOUSE'`, in.Ticket.Seat.ID))
		case ticket.Voided:
			require.NoError(t, err, "a repeated call")
			require.Equal(t, []uuid.UUID{in.Ticket.ID}, v.Before)
			require.Empty(t, v.New)
			require.Len(t, in.OutboxEvents(t, in.Reservation.ID), len(before))
			require.EqualValues(t, 1, in.Count(t, `SELECT count(*) FROM voids WHERE ticket_id = $1`, in.Ticket.ID))
		default:
			requireNotVoidable(t, err, string(in.Status))
			require.Equal(t, in.Ticket, got.Ticket)
			require.Equal(t, in.Reservation, in.Find(t, in.Reservation.ID))
		}
	})
}

func TestUnknownTicketsAndOrders(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, err := s.void(void.Request{TicketID: uuid.New()})
	require.ErrorIs(t, err, ticket.ErrNotFound)
	_, err = s.void(void.Request{ReservationID: uuid.New()})
	require.ErrorIs(t, err, reservation.ErrNotFound)
	held := s.MustHoldSeats(t, "u", "A-1-1")
	_, err = s.void(void.Request{ReservationID: held.ID})
	require.ErrorIs(t, err, void.ErrNotVoidable)
	require.Equal(t, "HELD", errs.From(err).Metadata["reason"])
}

// The status of an order says how its last place went.
func TestTheLastPlaceNamesTheStatus(t *testing.T) {
	t.Parallel()
	s := open(t)
	refundOne := func(p purchase.Payment, id uuid.UUID) {
		req := s.RefundRequest(p, refund.Operator)
		req.TicketIDs = []uuid.UUID{id}
		s.Settle(t, storetest.MadeRefund(s.BeginRefund(t, req), p))
	}
	r, p, ids := s.buy("a", "A-1-1", "A-1-2")
	refundOne(p, ids[0])
	require.Equal(t, reservation.Voided, s.Void(t, void.Request{TicketID: ids[1]}).Status)
	require.Equal(t, []string{"VOIDED", "VOIDED"}, []string{string(s.Find(t, r.ID).Status), s.Find(t, r.ID).Reason})

	r, p, ids = s.buy("b", "A-2-1", "A-2-2")
	require.Equal(t, reservation.Confirmed, s.Void(t, void.Request{TicketID: ids[0]}).Status)
	refundOne(p, ids[1])
	require.Equal(t, reservation.Refunded, s.Find(t, r.ID).Status)
	s.RequireInvariants(t)
}

// Voided places go to the house at once, and count for nobody's limit any more.
func TestVoidedPlaces(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, _, ids := s.buy("a", "A-1-1", "A-1-2", "A-1-3", "A-1-4")
	_, err := s.HoldSeats(t.Context(), "a", "A-2-1")
	require.ErrorIs(t, err, errs.ErrLimitExceeded)
	s.Void(t, void.Request{TicketID: ids[0]})
	s.MustHoldSeats(t, "a", "A-2-1")

	standing, err := s.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "b", SlotID: "s", Section: "F", Quantity: 3})
	require.NoError(t, err)
	p := storetest.Payment(standing)
	s.Confirm(t, standing, p)
	v := s.Void(t, void.Request{ReservationID: standing.ID})
	require.Equal(t, reservation.Voided, v.Status)
	require.ElementsMatch(t, s.TicketIDs(t, p), v.New)
	house, err := s.Events.House(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []event.HouseSection{
		{Name: "A", Seated: true, Capacity: 40, Sold: 3, House: 1}, {Name: "F", Capacity: 10, House: 3},
	}, house.Sections)
	require.Equal(t, []string{"A-1-1"}, house.SeatIDs)
	s.RequireInvariants(t)
}

// An order is voided with all of its tickets, whoever holds them; those that have ended stay. If
// one of them is being refunded or passed on, none is voided.
func TestVoidOfAnOrder(t *testing.T) {
	t.Parallel()
	s := open(t)
	r, p, ids := s.buy("thief", "A-1-1", "A-1-2", "A-1-3")
	_, claim, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: ids[0], Seller: "thief"}, nil)
	require.NoError(t, err)
	passed, err := s.Transfers.Accept(t.Context(), "mule", purchase.Contact{}, claim, uuid.Nil)
	require.NoError(t, err)
	req := s.RefundRequest(p, refund.Operator)
	req.TicketIDs = ids[1:2]
	c := s.BeginRefund(t, req)
	_, err = s.void(void.Request{ReservationID: r.ID})
	requireNotVoidable(t, err, "REFUNDING")
	require.Equal(t, ticket.Valid, s.find(ids[2]).Status, "all or none")
	s.Settle(t, storetest.MadeRefund(c, p))

	v := s.Void(t, void.Request{ReservationID: r.ID})
	require.ElementsMatch(t, []uuid.UUID{passed.NewTicket, ids[2]}, v.New)
	require.Equal(t, reservation.Voided, v.Status)
	require.Equal(t, ticket.Transferred, s.find(ids[0]).Status)
	again, err := s.void(void.Request{ReservationID: r.ID})
	require.NoError(t, err)
	require.ElementsMatch(t, v.New, again.Before)
	require.Empty(t, again.New)
	require.EqualValues(t, 2, s.Count(t, `SELECT count(*) FROM notices WHERE type = 'TICKETS_VOIDED'`), "the thief and the mule are told")

	detail, err := s.Orders.FindOrder(t.Context(), r.ID)
	require.NoError(t, err)
	for _, tk := range detail.Tickets {
		if tk.Status != ticket.Voided {
			require.Nil(t, tk.Void)
			continue
		}
		require.Equal(t, []string{"op", "stolen card"}, []string{tk.Void.Operator, tk.Void.Reason}, "of the first call")
		require.WithinDuration(t, s.Clock.Now(), tk.Void.At, time.Second)
	}
	list, err := s.Orders.SearchOrders(t.Context(), order.Criteria{EventID: "e"}, 10, uuid.Nil)
	require.NoError(t, err)
	require.Len(t, list, 1, "a voided order is among those of the event")
	s.RequireInvariants(t)
}

// Without a claim before the charge nobody may have been charged for an offered ticket. So its
// offer is cancelled with it.
func TestVoidCancelsTheOffer(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, _, ids := s.buy("a", "A-1-1", "A-1-2")
	for i, accept := range []bool{false, true} {
		offered, claim, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: ids[i], Seller: "a", Price: 70}, nil)
		require.NoError(t, err)
		if accept {
			_, err = s.Transfers.Accept(t.Context(), "b", purchase.Contact{}, claim, uuid.Nil)
			require.NoError(t, err)
		}
		s.Void(t, void.Request{TicketID: ids[i]})
		found, err := s.TransferStore.Find(t.Context(), offered.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"CANCELLED", "VOIDED"}, []string{string(found.Status), found.Reason})
		_, err = s.Transfers.Accept(t.Context(), "c", purchase.Contact{}, claim, uuid.Nil)
		require.ErrorIs(t, err, transfer.ErrEnded)
	}
	s.RequireInvariants(t)
}

// From closesAt on doors without a network may have the ticket on their lists.
func TestOfflineDoorsAreNamed(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, _, ids := s.buy("a", "A-1-1", "A-1-2")
	closesAt := storetest.Start.Add(47 * time.Hour)
	s.Clock.Set(closesAt.Add(-time.Second))
	require.False(t, s.Void(t, void.Request{TicketID: ids[0]}).OfflineDoors)
	s.Clock.Set(closesAt)
	require.True(t, s.Void(t, void.Request{TicketID: ids[1]}).OfflineDoors)
	s.RequireInvariants(t)
}
