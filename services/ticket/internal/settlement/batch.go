package settlement

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// ErrUnclaimed means that no claim is stored for a refund that was made, so that nobody knows which
// tickets or which membership it ends. The payment service makes a refund only after its claim was
// stored. So this database has lost the claim, or somebody has published the event by hand.
var ErrUnclaimed = errors.New("the refund has no claim")

// Section names a section of an event.
type Section struct{ EventID, Name string }

// Batch applies Kafka events of payments to reservations, claims, tickets, transfers and memberships whose
// rows are locked.
type Batch struct {
	// These return locked rows by their ids, nil if there is none.
	Reservation func(id uuid.UUID) *reservation.Reservation
	Ticket      func(id uuid.UUID) *ticket.Ticket
	Transfer    func(id uuid.UUID) *transfer.Transfer
	Membership  func(id uuid.UUID) *membership.Membership
	// Beside returns the locked memberships of the same user and plan.
	Beside func(m *membership.Membership) []*membership.Membership
	Claims map[uuid.UUID]*refund.Claim
	// Ended has, by payment id, the reasons why payments can never pay for anything.
	Ended    map[uuid.UUID]string
	Closings map[string]event.Closing
	// Scarce has the sections with less than 5 % of their places free.
	Scarce map[Section]bool
	Now    time.Time

	// Rejected has the Kafka events that reject payments whose reservation does not exist. All
	// other events are in their reservations.
	Rejected []reservation.Event
	// RejectedTransfers are the events that reject payments whose transfer does not exist. Passed has
	// the tickets of new holders.
	RejectedTransfers []transfer.Event
	Passed            []ticket.Ticket
	// RejectedMemberships are the events that reject payments whose membership does not exist.
	RejectedMemberships []membership.Event
	// NewlyEnded has, by payment id, the reasons of the rejections that Apply has made.
	NewlyEnded map[uuid.UUID]string
	// Done has the ids of the claims whose tickets Apply has ended.
	Done []uuid.UUID
	// Disputes has, by payment id, the latest dispute of each payment.
	Disputes map[uuid.UUID]Dispute
}

// Apply applies the events, in their order, to the locked reservations, claims and tickets.
func (b *Batch) Apply(events []PaymentEvent) error {
	for _, e := range events {
		switch {
		case e.Confirms() && e.Kind == Transfer:
			b.settleTransfer(e)
		case e.Confirms() && e.Kind == Membership:
			b.settleMembership(e)
		case e.Confirms():
			b.settle(e)
		case e.Dispute != nil:
			b.dispute(e)
		case e.EndsTickets():
			if err := b.endTickets(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Batch) dispute(e PaymentEvent) {
	if b.Disputes == nil {
		b.Disputes = make(map[uuid.UUID]Dispute)
	}
	if b.Disputes[e.Payment.ID].Version < e.Dispute.Version {
		b.Disputes[e.Payment.ID] = *e.Dispute
	}
}

// settle applies a confirmed payment: it confirms the reservation, or rejects the payment.
func (b *Batch) settle(e PaymentEvent) {
	r := b.Reservation(e.ReferenceID)
	if r == nil {
		b.Rejected = append(b.Rejected, reservation.RejectUnknown(e.ReferenceID, e.Payment, b.Now))
		b.endPayment(e.Payment.ID, reservation.ReasonUnknown)
		return
	}
	if b.Closings[r.EventID].State == event.Ended {
		r.CancelWithEvent(b.Now)
	}
	e.Payment.EndedWhy = b.Ended[e.Payment.ID]
	if reason := r.Settle(e.Payment, b.Now); reason != "" {
		b.endPayment(e.Payment.ID, reason)
	}
}

// settleTransfer applies a confirmed payment of a transfer: the ticket passes on, or the payment is
// rejected.
func (b *Batch) settleTransfer(e PaymentEvent) {
	t := b.Transfer(e.ReferenceID)
	if t == nil {
		b.RejectedTransfers = append(b.RejectedTransfers, transfer.RejectUnknown(e.ReferenceID, e.Payment, b.Now))
		b.endPayment(e.Payment.ID, transfer.ReasonUnknown)
		return
	}
	e.Payment.EndedWhy = b.Ended[e.Payment.ID]
	passed, reason := t.Settle(b.Ticket(t.TicketID), e.Payment, transfer.Terms{Closing: b.Closings[t.EventID], Now: b.Now})
	if reason != "" {
		b.endPayment(e.Payment.ID, reason)
	}
	if passed != nil {
		b.Passed = append(b.Passed, *passed)
	}
}

// settleMembership applies a confirmed payment of a membership: it activates the membership, or rejects
// the payment.
func (b *Batch) settleMembership(e PaymentEvent) {
	m := b.Membership(e.ReferenceID)
	if m == nil {
		b.RejectedMemberships = append(b.RejectedMemberships, membership.RejectUnknown(e.ReferenceID, e.Payment, b.Now))
		b.endPayment(e.Payment.ID, membership.ReasonUnknown)
		return
	}
	e.Payment.EndedWhy = b.Ended[e.Payment.ID]
	if reason := m.Settle(e.Payment, b.Beside(m), b.Now); reason != "" {
		b.endPayment(e.Payment.ID, reason)
	}
}

// endPayment makes the rejection of a payment final. Otherwise a repeated event could confirm a
// reservation with this payment, although its money is given back.
func (b *Batch) endPayment(payment uuid.UUID, reason string) {
	if b.Ended[payment] != "" {
		return
	}
	if b.NewlyEnded == nil {
		b.NewlyEnded = make(map[uuid.UUID]string)
	}
	b.Ended[payment], b.NewlyEnded[payment] = reason, reason
}

// endTickets ends the tickets that a refund has claimed and gives their places back, or ends the
// claimed membership. Other tickets of the payment stay. A repeated event changes nothing.
func (b *Batch) endTickets(e PaymentEvent) error {
	c := b.Claims[e.RefundID]
	if c == nil || (c.Status != refund.Begun && c.Status != refund.Done) {
		return fmt.Errorf("refund %s of payment %s: %w", e.RefundID, e.Payment.ID, ErrUnclaimed)
	}
	if c.Status == refund.Done {
		return nil
	}
	if c.MembershipID != uuid.Nil {
		return b.endMembership(c)
	}
	var reservationIDs []uuid.UUID
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
			reservationIDs = append(reservationIDs, t.ReservationID)
		}
		places[t.ReservationID] = append(places[t.ReservationID], b.decideReturn(c, t))
	}
	for _, id := range reservationIDs {
		b.Reservation(id).GiveBack(places[id], b.Now)
	}
	c.Status = refund.Done
	b.Done = append(b.Done, c.ID)
	return nil
}

// endMembership ends the membership that a refund has claimed.
func (b *Batch) endMembership(c *refund.Claim) error {
	m := b.Membership(c.MembershipID)
	if m == nil {
		return fmt.Errorf("refund %s of membership %s, which does not exist: %w", c.ID, c.MembershipID, ErrUnclaimed)
	}
	if err := m.EndRefund(c.ID, c.Cause, b.Beside(m), b.Now); err != nil {
		return err
	}
	c.Status = refund.Done
	b.Done = append(b.Done, c.ID)
	return nil
}

// decideReturn decides what becomes of the place of a refunded ticket: the organiser gets it, or it
// is for sale again at some time. Places of an event that has ended are not for sale in any case.
func (b *Batch) decideReturn(c *refund.Claim, t *ticket.Ticket) reservation.GivenBack {
	closing := b.Closings[t.EventID]
	place := reservation.GivenBack{N: t.N, Fee: t.FeeGiven(), House: !c.BegunAt.Before(closing.ClosesAt)}
	if place.House || closing.State == event.Ended {
		return place
	}
	if place.House = b.Scarce[Section{EventID: t.EventID, Name: t.Section}]; !place.House {
		place.ReleaseAt = closing.ReleaseAt(b.Now)
	}
	return place
}
