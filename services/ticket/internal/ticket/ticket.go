// Package ticket has the tickets of confirmed reservations, and the signed codes that doors verify.
package ticket

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// Errors of requests for tickets and of checks of their codes.
var (
	ErrNotFound    = errs.ErrTicketNotFound
	ErrCodeInvalid = errs.ErrTicketCodeInvalid
)

// Status is the status of a ticket. Only the transaction that has locked its row may change it.
//
//	VALID → USED                       a door admits its bearer
//	USED → VALID                       the scan is undone, or the event is postponed
//	VALID, USED → REFUNDING            a refund claims it (USED: of a cancelled event, or given by hand)
//	REFUNDING → REFUNDED               the refund is made
//	REFUNDING → VALID                  the refund is refused
//	VALID, USED → REFUNDED             the event is cancelled, and nothing is owed for the ticket
//	VALID → TRANSFERRING               a buyer is about to be charged for it
//	TRANSFERRING → VALID               the buyer does not pay
//	VALID, TRANSFERRING → TRANSFERRED  the buyer has paid, or it was a gift
//	VALID, USED → VOIDED               an operator voids it, and no money is given back
type Status string

// The statuses of a ticket.
const (
	Valid        Status = "VALID"
	Used         Status = "USED"
	Transferring Status = "TRANSFERRING"
	Transferred  Status = "TRANSFERRED"
	Refunding    Status = "REFUNDING"
	Refunded     Status = "REFUNDED"
	Voided       Status = "VOIDED"
)

// Ticket admits one person.
type Ticket struct {
	ID uuid.UUID
	// Previous is the ticket that this one has replaced in a transfer, PreviousHolder its holder;
	// zero: none. Both are set for new tickets only.
	Previous       uuid.UUID
	PreviousHolder string
	ReservationID  uuid.UUID
	// N is the number of the ticket's place in the reservation, from 1.
	N       int
	EventID string
	// UserID is the holder; empty: nobody has claimed the ticket yet.
	UserID string
	// Name is the name on an order that was given away. It is read with locked tickets only.
	Name    string
	Section string
	// Seat is nil for general admission.
	Seat *reservation.Seat
	// Price is the face value in the currency's minor unit.
	Price int64
	// Paid is what the holder has paid for the ticket, Fee the part of Paid that is a fee. GivenBack
	// is the part of Paid that was given back, or was promised to be given back.
	Paid, Fee, GivenBack int64
	Currency             string
	// PaymentID is the payment that has paid for the ticket; zero: the ticket was a gift.
	PaymentID uuid.UUID
	// OnlyWhole is the amount of a payment that can only be refunded as a whole; 0: also in parts.
	OnlyWhole int64
	Status    Status
	// RefundID is the refund that has claimed the ticket; zero: none.
	RefundID uuid.UUID
	// Disputed: its payer disputes the charge at the bank. The ticket stays valid all the same.
	Disputed bool
	// Serial grows with every new code of the ticket, which makes the earlier codes invalid.
	Serial   int
	IssuedAt time.Time
	// ChosenAt is when the holder held the place, or accepted the ticket: the terms of that time were
	// shown.
	ChosenAt time.Time
}

// Issue returns new tickets for a confirmed reservation, one per place.
func Issue(r *reservation.Reservation) []Ticket {
	tickets := make([]Ticket, r.Quantity)
	for i := range tickets {
		t := Ticket{
			ID: uuid.Must(uuid.NewV7()), ReservationID: r.ID, N: i + 1, EventID: r.EventID, UserID: r.UserID,
			Section: r.Section, Fee: r.Fee / int64(r.Quantity), Price: (r.Amount - r.Fee) / int64(r.Quantity),
			Currency: r.Currency, PaymentID: r.PaymentID, Status: Valid, Serial: 1, ChosenAt: r.CreatedAt,
		}
		if len(r.Seats) > 0 {
			seat := r.Seats[i]
			t.Seat, t.Section, t.Price, t.Fee = &seat, seat.Section, seat.Price, seat.Fee
		}
		if r.WholeOnly {
			t.OnlyWhole = r.Amount
		}
		t.Paid = t.Price + t.Fee
		tickets[i] = t
	}
	return tickets
}

// View is a ticket with the data that decide whether its holder can give it back or pass it on.
type View struct {
	Ticket

	Closing event.AfterSaleTerms
	// Offer is the id of its open offer to other users (a transfer); zero: none.
	Offer uuid.UUID
	// Now is the database's time.
	Now time.Time
}

// Store reads tickets.
type Store interface {
	// FindTicket returns a ticket, or ErrNotFound.
	FindTicket(ctx context.Context, id uuid.UUID) (*View, error)
	// ListTickets returns a user's tickets with smaller ids than before (zero: all), newest first.
	ListTickets(ctx context.Context, userID string, limit int, before uuid.UUID) ([]View, error)
}

// Service shows users their own tickets, and signs the tickets' codes.
type Service struct {
	store Store
	keys  atomic.Pointer[Keys]
}

// NewService makes a Service whose codes are signed by keys.
func NewService(store Store, keys Keys) *Service {
	s := &Service{store: store}
	s.Rekey(keys)
	return s
}

func (s *Service) Rekey(keys Keys) { s.keys.Store(&keys) }

// Get returns a user's own ticket. To an operator it also returns a ticket that nobody has claimed
// yet. ErrNotFound for other tickets.
func (s *Service) Get(ctx context.Context, userID string, operator bool, id uuid.UUID) (*View, error) {
	t, err := s.store.FindTicket(ctx, id)
	if err != nil {
		return nil, err
	}
	if t.UserID != userID && (t.UserID != "" || !operator) {
		return nil, ErrNotFound
	}
	return t, nil
}

// List returns a page of a user's tickets, newest first, and `before` for the next page (zero:
// none).
func (s *Service) List(ctx context.Context, userID string, limit int, before uuid.UUID) ([]View, uuid.UUID, error) {
	list, err := s.store.ListTickets(ctx, userID, limit+1, before)
	if err != nil || len(list) <= limit {
		return list, uuid.Nil, err
	}
	return list[:limit], list[limit-1].ID, nil
}

// Verify decodes a genuine code, even of an invalid ticket, or returns ErrCodeInvalid.
func (s *Service) Verify(code string) (Code, error) { return s.keys.Load().Verify(code) }

func (s *Service) SignDoorList(l *DoorList) string { return s.keys.Load().SignDoorList(l) }

// Code returns the ticket's signed code. It is empty unless the ticket is VALID or TRANSFERRING
// (the buyer may not pay): a door that checks signatures only would admit the bearer. Codes are
// never stored, so that a stolen database contains no valid ones.
func (s *Service) Code(t *Ticket) string {
	if t.Status != Valid && t.Status != Transferring {
		return ""
	}
	code := Code{TicketID: t.ID, Serial: uint32(t.Serial), EventID: t.EventID, Place: t.Section} //nolint:gosec // counts from 1
	if t.Seat != nil {
		code.Place = t.Seat.ID
	}
	return s.keys.Load().Sign(code)
}
