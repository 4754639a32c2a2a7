package settlement

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
)

// ErrUnclaimed means that no claim is stored for a refund that was made, so that nobody knows which
// tickets or which membership it ends. The payment service makes a refund only after its claim was
// stored. So this database has lost the claim, or somebody has published the event by hand.
var ErrUnclaimed = errors.New("the refund has no claim")

// ErrNotBegun means that a payment was never begun for what it is said to have paid, or by another
// user, or with another amount. The payment service begins every payment before it charges it. So
// this database has lost the purchase, or somebody else has written the event.
var ErrNotBegun = errors.New("the payment was not begun for this purchase")

// Section identifies a section of an event.
type Section struct{ EventID, Name string }

// Batch applies Kafka events about payments to reservations, claims, tickets, transfers and
// memberships. The caller has locked their rows.
//
// A rejected payment ends as a declined one does, whatever it was for: if it was under way, the time
// to pay, or the ticket, is given back at once (purchase.Settle).
type Batch struct {
	// These functions return the locked row with an id; nil if there is none. Purchase returns what a
	// payment pays for.
	Purchase    func(t purchase.Type, id uuid.UUID) purchase.Purchase
	Reservation func(id uuid.UUID) *reservation.Reservation
	Ticket      func(id uuid.UUID) *ticket.Ticket
	Membership  func(id uuid.UUID) *membership.Purchase
	// Claims has the claims of refunds by the ids of the refunds.
	Claims map[uuid.UUID]*refund.Claim
	// Ended has, by payment id, the reason why a payment can never pay for anything.
	Ended map[uuid.UUID]string
	// Closings has the settings by which payments and refunds are decided, by event id.
	Closings map[string]event.AfterSaleTerms
	// Scarce has the sections with less than 5 % of their places free.
	Scarce map[Section]bool
	// MaxExtension is the maximum time by which payments may extend the time to pay.
	MaxExtension time.Duration
	Now          time.Time

	// NewlyEnded has, by payment id, the reason of each rejection that Apply has made.
	NewlyEnded map[uuid.UUID]string
	// Done has the ids of the claims whose tickets Apply has ended.
	Done []uuid.UUID
	// Notices has what payers are told of refunds and of rejected payments.
	Notices []notice.New
	// Disputes has, by payment id, the latest dispute of each payment.
	Disputes map[uuid.UUID]Dispute
}

// Apply applies the events, in their order, to the locked reservations, claims and tickets. Errors:
// ErrUnclaimed, ErrNotBegun.
func (b *Batch) Apply(events []PaymentEvent) error {
	for _, e := range events {
		switch {
		case e.Confirms():
			if err := b.settle(e); err != nil {
				return err
			}
		case e.Dispute != nil:
			b.recordDispute(e)
		case e.EndsTickets():
			if err := b.endTickets(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle makes what a confirmed payment pays for paid, or rejects the payment.
func (b *Batch) settle(e PaymentEvent) error {
	paid := &e.Payment
	p := b.Purchase(e.Type, e.ReferenceID)
	if p == nil || !purchase.HasBegun(p, *paid) {
		return fmt.Errorf("payment %s of %d %s for %s: %w", paid.ID, paid.Amount, paid.Currency, e.ReferenceID, ErrNotBegun)
	}
	paid.EndedWhy = b.Ended[paid.ID]
	if reason := purchase.Settle(p, *paid, b.Now, b.MaxExtension); reason != "" {
		b.endPayment(e, reason)
	}
	return nil
}

func (b *Batch) recordDispute(e PaymentEvent) {
	if b.Disputes == nil {
		b.Disputes = make(map[uuid.UUID]Dispute)
	}
	if b.Disputes[e.Payment.ID].Version < e.Dispute.Version {
		b.Disputes[e.Payment.ID] = *e.Dispute
	}
}

// endPayment makes the rejection of a payment final. Otherwise, if its Kafka event came again, the
// payment could confirm a reservation, although its money is given back. The payer is told once: not
// again if the payment was rejected before, but if it had ended by a refund by hand. A free order
// has taken no money of which to tell.
func (b *Batch) endPayment(e PaymentEvent, reason string) {
	payment := e.Payment.ID
	if ended := b.Ended[payment]; e.Payment.Amount > 0 && (ended == "" || ended == purchase.ReasonRefunded) {
		b.Notices = append(b.Notices, notice.ForRejected(string(e.Type), e.ReferenceID, e.Payment, reason))
	}
	if b.Ended[payment] != "" {
		return
	}
	if b.NewlyEnded == nil {
		b.NewlyEnded = make(map[uuid.UUID]string)
	}
	b.Ended[payment], b.NewlyEnded[payment] = reason, reason
}

// endTickets ends the tickets that a refund has claimed and gives their places back, or ends the
// claimed membership. The claim may name tickets that were passed on: they have ended before, and
// their payer gets money back. Other tickets of the payment stay. An event that comes again changes
// nothing.
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
	items := make([]notice.Item, 0, len(c.Items))
	places := make(map[uuid.UUID][]reservation.ReturnedPlace)
	for _, item := range c.Items {
		t := b.Ticket(item.TicketID)
		if t == nil {
			return fmt.Errorf("refund %s of ticket %s, which does not exist: %w", c.ID, item.TicketID, ErrUnclaimed)
		}
		ended, err := t.EndRefund(c.ID)
		if err != nil {
			return err
		}
		items = append(items, notice.Item{Ticket: t, Amount: item.Amount})
		if !ended {
			b.Reservation(t.ReservationID).GiveBackFee(t.FeeOf(item.Amount), b.Now)
			continue
		}
		if places[t.ReservationID] == nil {
			reservationIDs = append(reservationIDs, t.ReservationID)
		}
		places[t.ReservationID] = append(places[t.ReservationID], b.decideReturn(c, t, t.FeeOf(item.Amount)))
	}
	for _, id := range reservationIDs {
		b.Reservation(id).GiveBack(places[id], b.Now)
	}
	b.Notices = append(b.Notices, notice.ForRefund(c.PaymentID, string(c.Cause), items)...)
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
	if err := m.EndRefund(c.ID, c.Cause, m.Others, b.Now); err != nil {
		return err
	}
	c.Status = refund.Done
	b.Done = append(b.Done, c.ID)
	return nil
}

// decideReturn decides what happens to the place of a refunded ticket: the organiser keeps it, or
// it will be for sale again. Until then it counts for the limit of a user who gave it back: giving
// places back and buying others must not take them off sale. If the event has ended, no time is
// chosen, since nothing is sold then. fee is the part of the refund that is a fee.
func (b *Batch) decideReturn(c *refund.Claim, t *ticket.Ticket, fee int64) reservation.ReturnedPlace {
	closing := b.Closings[t.EventID]
	place := reservation.ReturnedPlace{N: t.N, Fee: fee, House: closing.KeepsReturns(c.BegunAt)}
	if place.House || closing.State == event.Ended {
		return place
	}
	place.ReleaseAt = closing.ReleaseAt(b.Now, b.Scarce[Section{EventID: t.EventID, Name: t.Section}])
	if c.Cause == refund.User && !place.ReleaseAt.IsZero() {
		place.Giver = t.UserID
	}
	return place
}
