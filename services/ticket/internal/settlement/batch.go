package settlement

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// ErrUnclaimed means that a refund was made that has claimed nothing here. Payment makes none
// before its claim is stored, so that this database has lost the claim, or somebody has published
// the event by hand. Which tickets end cannot be known.
var ErrUnclaimed = errors.New("the refund has no claim")

// Section is a section of an event.
type Section struct{ EventID, Name string }

// Batch applies payment events to reservations, claims and tickets whose rows are locked.
type Batch struct {
	// Reservation and Ticket find what is locked, nil if it does not exist.
	Reservation func(id uuid.UUID) *reservation.Reservation
	Ticket      func(id uuid.UUID) *ticket.Ticket
	Claims      map[uuid.UUID]*refund.Claim
	// Ended has, by payment id, why a payment pays for nothing.
	Ended    map[uuid.UUID]string
	Closings map[string]event.Closing
	// Scarce are the sections of which less than 5 % is free.
	Scarce map[Section]bool
	Now    time.Time

	// Rejected are the events of payments whose reservation does not exist; the reservations have the
	// other events.
	Rejected []reservation.Event
	// NewlyEnded are the payments that were rejected, and why.
	NewlyEnded map[uuid.UUID]string
	// Done are the claims whose tickets have ended.
	Done []uuid.UUID
}

// Apply changes what is locked in the order of the events.
func (b *Batch) Apply(events []PaymentEvent) error {
	for _, e := range events {
		switch {
		case !e.Refunded:
			b.settle(e)
		case e.EndsTickets():
			if err := b.endTickets(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle lets a payment that was taken confirm its reservation, or rejects it.
func (b *Batch) settle(e PaymentEvent) {
	r := b.Reservation(e.ReservationID)
	if r == nil {
		b.Rejected = append(b.Rejected, reservation.RejectUnknown(e.ReservationID, e.Payment, b.Now))
		b.end(e.Payment.ID, reservation.ReasonUnknown)
		return
	}
	if b.Closings[r.EventID].State == event.Ended {
		r.CancelWithEvent(b.Now)
	}
	e.Payment.EndedWhy = b.Ended[e.Payment.ID]
	if reason := r.Settle(e.Payment, b.Now); reason != "" {
		b.end(e.Payment.ID, reason)
	}
}

// end makes the rejection of a payment final: what it was made for may be open again, and must not
// be given for money that goes back.
func (b *Batch) end(payment uuid.UUID, reason string) {
	if b.Ended[payment] != "" {
		return
	}
	if b.NewlyEnded == nil {
		b.NewlyEnded = make(map[uuid.UUID]string)
	}
	b.Ended[payment], b.NewlyEnded[payment] = reason, reason
}

// endTickets ends the tickets of a refund's claim and gives their places back, whatever else its
// payment has paid for. A repeated event changes nothing.
func (b *Batch) endTickets(e PaymentEvent) error {
	c := b.Claims[e.RefundID]
	if c == nil || (c.Status != refund.Begun && c.Status != refund.Done) {
		return fmt.Errorf("refund %s of payment %s: %w", e.RefundID, e.Payment.ID, ErrUnclaimed)
	}
	if c.Status == refund.Done {
		return nil
	}
	var order []uuid.UUID
	places := make(map[uuid.UUID][]reservation.GivenBack)
	for _, item := range c.Items {
		t := b.Ticket(item.TicketID)
		if t == nil {
			return fmt.Errorf("refund %s of ticket %s, which does not exist: %w", c.ID, item.TicketID, ErrUnclaimed)
		}
		ended, err := t.EndRefund(c.ID)
		if err != nil {
			return err
		}
		if !ended {
			continue
		}
		if places[t.ReservationID] == nil {
			order = append(order, t.ReservationID)
		}
		places[t.ReservationID] = append(places[t.ReservationID], b.giveBack(c, t))
	}
	for _, id := range order {
		b.Reservation(id).GiveBack(places[id], b.Now)
	}
	c.Status = refund.Done
	b.Done = append(b.Done, c.ID)
	return nil
}

// giveBack decides on the place of a ticket that a claim has ended. Of an event that has ended nothing
// is for sale.
func (b *Batch) giveBack(c *refund.Claim, t *ticket.Ticket) reservation.GivenBack {
	closing := b.Closings[t.EventID]
	given := reservation.GivenBack{N: t.N, House: !c.BegunAt.Before(closing.ClosesAt)}
	if given.House || closing.State == event.Ended {
		return given
	}
	if given.House = b.Scarce[Section{EventID: t.EventID, Name: t.Section}]; !given.House {
		given.ReleaseAt = closing.ReleaseAt(b.Now)
	}
	return given
}
