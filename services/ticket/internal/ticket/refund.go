package ticket

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ErrNotClaimed means that a refund ends a ticket that it has not claimed. It indicates a bug: no
// order of Kafka events can lead to it.
var ErrNotClaimed = errors.New("the ticket is not claimed by this refund")

// Claim claims a VALID ticket, or a USED one of a cancelled event, for a refund of this amount.
func (t *Ticket) Claim(refundID uuid.UUID, amount int64) {
	t.Status, t.RefundID = Refunding, refundID
	t.GivenBack += amount
}

// Owed returns the amount that the holder has paid, less what was given or promised back before.
func (t *Ticket) Owed() int64 { return t.Paid - t.GivenBack }

// End ends a ticket of a cancelled event for which nothing is owed.
func (t *Ticket) End() { t.Status = Refunded }

// PromiseRest sets GivenBack to all that was paid, for a ticket that was transferred.
func (t *Ticket) PromiseRest() { t.GivenBack = t.Paid }

// Unclaim makes a ticket VALID again after its refund was refused.
func (t *Ticket) Unclaim(refundID uuid.UUID, amount int64) error {
	if t.Status != Refunding || t.RefundID != refundID {
		return t.notClaimed(refundID)
	}
	t.Status, t.RefundID = Valid, uuid.Nil
	t.GivenBack -= amount
	return nil
}

// EndRefund ends a ticket whose refund was made. ended is false for a ticket that was transferred
// before: its place belongs to the ticket of the new holder.
func (t *Ticket) EndRefund(refundID uuid.UUID) (ended bool, err error) {
	if t.Status == Transferred {
		return false, nil
	}
	if t.Status != Refunding || t.RefundID != refundID {
		return false, t.notClaimed(refundID)
	}
	t.Status = Refunded
	return true, nil
}

// FeeGivenBack returns the part of GivenBack that is fees. The price is given back first.
func (t *Ticket) FeeGivenBack() int64 { return max(0, t.GivenBack-(t.Paid-t.Fee)) }

func (t *Ticket) notClaimed(refundID uuid.UUID) error {
	return fmt.Errorf("ticket %s is %s, refund %s: %w", t.ID, t.Status, refundID, ErrNotClaimed)
}
