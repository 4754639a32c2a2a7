// Package void ends tickets because an operator says so: those of a thief, or those that were given
// away by mistake. It moves no money.
package void

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// ErrNotVoidable means that a ticket has ended, or that a refund or a transfer is changing it.
var ErrNotVoidable = errs.ErrNotVoidable

// Request asks to void one ticket or a whole order. One of the ids is zero.
type Request struct {
	TicketID, ReservationID uuid.UUID
	Operator, Reason        string
}

// Voided is the answer to a request.
type Voided struct {
	ReservationID uuid.UUID
	EventID       string
	// Status is the status of the order.
	Status reservation.Status
	// Before are the tickets that were void already, New those that the request has ended.
	Before, New []uuid.UUID
	// OfflineDoors: doors without a network may have the tickets on their lists, and still admit
	// their bearers. They get their lists from the event's ClosesAt on.
	OfflineDoors bool
}

// Store stores which tickets were voided, by whom and why.
type Store interface {
	// Void applies Decide to the request. Errors: those of Decide, ticket.ErrNotFound,
	// reservation.ErrNotFound.
	Void(ctx context.Context, req Request) (Voided, error)
}

// Decide voids the tickets that admit somebody: all, or none if one of them cannot be voided. It
// gives their places to the organiser. tickets is the one of the request, or all of the order.
// Their rows and that of the order must be locked. A repeated request changes nothing.
func Decide(req Request, r *reservation.Reservation, tickets []*ticket.Ticket, closing event.AfterSaleTerms, now time.Time) (Voided, error) {
	v := Voided{ReservationID: r.ID, EventID: r.EventID, OfflineDoors: !now.Before(closing.ClosesAt)}
	var ids, reasons []string
	var admitting []*ticket.Ticket
	for _, t := range tickets {
		ended := t.Status == ticket.Refunded || t.Status == ticket.Transferred
		switch {
		case t.Status == ticket.Valid || t.Status == ticket.Used:
			admitting = append(admitting, t)
		case t.Status == ticket.Voided:
			v.Before = append(v.Before, t.ID)
		case req.TicketID != uuid.Nil || !ended: // of an order, those that have ended stay as they are
			ids, reasons = append(ids, t.ID.String()), append(reasons, string(t.Status))
		}
	}
	switch {
	case len(ids) > 0:
		return Voided{}, ErrNotVoidable.With("ticketIds", strings.Join(ids, ",")).With("ticketReasons", strings.Join(reasons, ","))
	case len(admitting)+len(v.Before) == 0:
		return Voided{}, ErrNotVoidable.With("reason", string(r.Status))
	}
	var places []int
	for _, t := range admitting {
		t.Void()
		v.New, places = append(v.New, t.ID), append(places, t.N)
	}
	r.Void(places, now)
	v.Status = r.Status
	return v, nil
}
