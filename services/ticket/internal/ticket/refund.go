package ticket

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ErrNotClaimed means that a refund ends a ticket that it has not claimed. It indicates a bug: no
// order of Kafka events can lead to it.
var ErrNotClaimed = errors.New("the ticket is not claimed by this refund")

// Void ends a VALID or USED ticket. What was paid for it stays paid.
func (t *Ticket) Void() { t.Status = Voided }

// Admits reports whether the ticket admits its holder, or has done so.
func (t *Ticket) Admits() bool { return t.Status == Valid || t.Status == Used }

// Claim claims a VALID ticket, or a USED one of a cancelled event or after a refund by hand, for a
// refund of this amount. Of a ticket that has ended already only the money is claimed.
func (t *Ticket) Claim(refundID uuid.UUID, amount int64) {
	t.GivenBack += amount
	if t.Admits() {
		t.Status, t.RefundID = Refunding, refundID
	}
}

// Owed returns the amount that the holder has paid, less what was given or promised back before.
func (t *Ticket) Owed() int64 { return t.Paid - t.GivenBack }

// End ends a ticket of a cancelled event for which nothing is owed.
func (t *Ticket) End() { t.Status = Refunded }

// PromiseRest sets GivenBack to all that was paid, for a ticket that was transferred or voided.
func (t *Ticket) PromiseRest() { t.GivenBack = t.Paid }

// Unclaim makes a ticket VALID again after its refund was refused. A VOIDED ticket stays VOIDED.
func (t *Ticket) Unclaim(refundID uuid.UUID, amount int64) error {
	if t.Status == Voided {
		t.GivenBack -= amount
		return nil
	}
	if t.Status != Refunding || t.RefundID != refundID {
		return t.notClaimed(refundID)
	}
	t.Status, t.RefundID = Valid, uuid.Nil
	t.GivenBack -= amount
	return nil
}

// EndRefund ends a ticket whose refund was made. ended is false for a ticket that was transferred
// or voided before (its place belongs to the ticket of the new holder, or to the organiser), or has
// ended by another refund.
func (t *Ticket) EndRefund(refundID uuid.UUID) (ended bool, err error) {
	if t.Status == Transferred || t.Status == Voided || t.Status == Refunded && t.RefundID != refundID {
		return false, nil
	}
	if t.Status != Refunding || t.RefundID != refundID {
		return false, t.notClaimed(refundID)
	}
	t.Status = Refunded
	return true, nil
}

// FeeOf returns the part of an amount that is a fee. The amount is the last that was given back, and
// is part of GivenBack. The price is given back first.
func (t *Ticket) FeeOf(amount int64) int64 {
	price := t.Paid - t.Fee
	return max(0, t.GivenBack-price) - max(0, t.GivenBack-amount-price)
}

func (t *Ticket) notClaimed(refundID uuid.UUID) error {
	return fmt.Errorf("ticket %s is %s, refund %s: %w", t.ID, t.Status, refundID, ErrNotClaimed)
}
