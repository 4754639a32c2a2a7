package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
	"urr.guru/services/ticket/internal/void"
)

// BeginPayment begins the payment of a reservation, and returns the payment.
func (s *Service) BeginPayment(t *testing.T, held *reservation.Reservation) purchase.Payment {
	t.Helper()
	p := Payment(held)
	_, err := s.Reservations.BeginPayment(t.Context(), held.UserID, held.ID, p.ID, purchase.PayTime{})
	require.NoError(t, err)
	return p
}

// confirm makes a confirmed payment of a reservation, and returns the payment.
func confirm(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment {
	t.Helper()
	p := Payment(held)
	s.Confirm(t, held, p)
	return p
}

// transitions has, by status, a function that brings a new hold into this status. It returns the
// payment that it has made, or else a payment that could be made now.
var transitions = map[reservation.Status]func(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment{
	reservation.Held: func(_ *testing.T, _ *Service, held *reservation.Reservation) purchase.Payment {
		return Payment(held)
	},
	reservation.Paying: func(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment {
		t.Helper()
		return s.BeginPayment(t, held)
	},
	reservation.Confirmed: confirm,
	reservation.Cancelled: func(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment {
		t.Helper()
		require.NoError(t, s.Reservations.Cancel(t.Context(), held.UserID, "", held.ID))
		return Payment(held)
	},
	reservation.Expired: func(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment {
		t.Helper()
		s.Clock.Advance(HoldFor)
		_, err := s.Expiry.ExpireDue(t.Context(), 10)
		require.NoError(t, err)
		return Payment(held)
	},
	reservation.Rejected: func(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment {
		t.Helper()
		s.Clock.Advance(HoldFor)
		return confirm(t, s, held)
	},
	reservation.Refunded: func(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment {
		t.Helper()
		p := confirm(t, s, held)
		s.Refund(t, p, refund.Operator)
		return p
	},
	reservation.Voided: func(t *testing.T, s *Service, held *reservation.Reservation) purchase.Payment {
		t.Helper()
		p := confirm(t, s, held)
		s.Void(t, void.Request{ReservationID: held.ID})
		return p
	},
}

// InStatus is a reservation in a status, with the payment that transitions returned for it.
type InStatus struct {
	*Service

	Status      reservation.Status
	Reservation *reservation.Reservation
	Payment     purchase.Payment
}

// ForEachReservationStatus runs a test on a reservation in every status.
func ForEachReservationStatus(t *testing.T, test func(t *testing.T, in InStatus)) {
	t.Helper()
	s := New(t)
	s.Put(t, Spec("e", event.Assigned, Rows("A", 70, len(transitions), 2)))
	row := 0
	for status, reach := range transitions {
		row++
		held := s.MustHoldSeats(t, "user-"+string(status), fmt.Sprintf("A-%d-1", row), fmt.Sprintf("A-%d-2", row))
		p := reach(t, s, held)
		reached := s.Find(t, held.ID)
		require.Equal(t, status, reached.Status)
		t.Run(string(status), func(t *testing.T) {
			test(t, InStatus{Service: s, Status: status, Reservation: reached, Payment: p})
			s.RequireInvariants(t)
		})
	}
}

// TicketIDs returns the tickets of a payment, in the order of their places.
func (s *Service) TicketIDs(t *testing.T, p purchase.Payment) []uuid.UUID {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), `SELECT ticket_id FROM tickets WHERE payment_id = $1 ORDER BY n, issued_at`, p.ID)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	return ids
}

// ticketSteps has, by status, a function that brings a VALID ticket of a payment into this status.
// For USED it updates the row, in place of a scan by a door.
var ticketSteps = map[ticket.Status]func(t *testing.T, s *Service, p purchase.Payment, id uuid.UUID){
	ticket.Valid:        func(*testing.T, *Service, purchase.Payment, uuid.UUID) {},
	ticket.Used:         setStatus(`UPDATE tickets SET status = 'USED' WHERE ticket_id = $1`),
	ticket.Transferring: func(t *testing.T, s *Service, _ purchase.Payment, id uuid.UUID) { t.Helper(); s.passOn(t, id, 70) },
	ticket.Transferred:  func(t *testing.T, s *Service, _ purchase.Payment, id uuid.UUID) { t.Helper(); s.passOn(t, id, 0) },
	ticket.Refunding: func(t *testing.T, s *Service, p purchase.Payment, id uuid.UUID) {
		t.Helper()
		s.claimOne(t, p, id)
	},
	ticket.Refunded: func(t *testing.T, s *Service, p purchase.Payment, id uuid.UUID) {
		t.Helper()
		s.Settle(t, MadeRefund(s.claimOne(t, p, id), p))
	},
	ticket.Voided: func(t *testing.T, s *Service, _ purchase.Payment, id uuid.UUID) {
		t.Helper()
		s.Void(t, void.Request{TicketID: id})
	},
}

func setStatus(sql string) func(t *testing.T, s *Service, _ purchase.Payment, id uuid.UUID) {
	return func(t *testing.T, s *Service, _ purchase.Payment, id uuid.UUID) {
		t.Helper()
		_, err := s.Pool.Exec(t.Context(), sql, id)
		require.NoError(t, err)
	}
}

// passOn offers a ticket to a friend, who accepts. If the price is 0, this completes the transfer.
// Otherwise it claims the ticket for a payment, as is done before a charge.
func (s *Service) passOn(t *testing.T, id uuid.UUID, price int64) {
	t.Helper()
	sold, err := s.Tickets.FindTicket(t.Context(), id)
	require.NoError(t, err)
	offer, _, err := s.Transfers.Offer(t.Context(), transfer.Request{TicketID: id, Seller: sold.UserID, ToUser: "friend", Price: price}, nil)
	require.NoError(t, err)
	_, err = s.Transfers.Accept(t.Context(), "friend", purchase.Contact{}, "", offer.ID)
	require.NoError(t, err)
	if price > 0 {
		_, err = s.Transfers.BeginPayment(t.Context(), "friend", offer.ID, uuid.New(), purchase.PayTime{Within: 30 * time.Minute})
		require.NoError(t, err)
	}
}

func (s *Service) claimOne(t *testing.T, p purchase.Payment, id uuid.UUID) *refund.Claim {
	t.Helper()
	req := s.RefundRequest(p, refund.Operator)
	req.TicketIDs = []uuid.UUID{id}
	return s.BeginRefund(t, req)
}

// TicketInStatus is a ticket in a status. Other is a VALID ticket of the same payment.
type TicketInStatus struct {
	*Service

	Status      ticket.Status
	Ticket      ticket.Ticket
	Other       uuid.UUID
	Reservation *reservation.Reservation
	Payment     purchase.Payment
}

// ForEachTicketStatus runs a test on a ticket in every status. Each place costs 70 and a fee of 5.
func ForEachTicketStatus(t *testing.T, test func(t *testing.T, in TicketInStatus)) {
	t.Helper()
	s := New(t)
	e := Spec("e", event.Assigned, Rows("A", 70, len(ticketSteps), 2))
	e.Transferable = new(event.TransferPriced)
	s.Put(t, e)
	s.SetFees(t, 5)
	row := 0
	for status, reach := range ticketSteps {
		row++
		held := s.MustHoldSeats(t, "user-"+string(status), fmt.Sprintf("A-%d-1", row), fmt.Sprintf("A-%d-2", row))
		p := confirm(t, s, held)
		ids := s.TicketIDs(t, p)
		reach(t, s, p, ids[0])
		found, err := s.Tickets.FindTicket(t.Context(), ids[0])
		require.NoError(t, err)
		require.Equal(t, status, found.Status)
		t.Run(string(status), func(t *testing.T) {
			test(t, TicketInStatus{
				Service: s, Status: status, Ticket: found.Ticket, Other: ids[1], Reservation: s.Find(t, held.ID), Payment: p,
			})
			s.RequireInvariants(t)
		})
	}
}

// SetFees sets the fee of all places that will be held from now on.
func (s *Service) SetFees(t *testing.T, fee int64) {
	t.Helper()
	_, err := s.Pool.Exec(t.Context(), `UPDATE sections SET fee = $1`, fee)
	require.NoError(t, err)
}
