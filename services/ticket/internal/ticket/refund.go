package ticket

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ErrNotClaimed means that a refund ends a ticket that it has not claimed, which no order of
// messages can lead to.
var ErrNotClaimed = errors.New("the ticket is not claimed by this refund")

// Claim claims a VALID ticket, or a USED one of a cancelled event, for a refund that gives the amount back.
func (t *Ticket) Claim(refund uuid.UUID, amount int64) {
	t.Status, t.RefundID = Refunding, refund
	t.Given += amount
}

// Owed is what its holder has paid and did not get back.
func (t *Ticket) Owed() int64 { return t.Paid - t.Given }

// End ends a ticket of a cancelled event for which nothing is owed.
func (t *Ticket) End() { t.Status = Refunded }

// GiveRest promises what is owed for a ticket that was passed on, whose place is another ticket's.
func (t *Ticket) GiveRest() { t.Given = t.Paid }

// Unclaim makes a ticket VALID again after its refund was refused.
func (t *Ticket) Unclaim(refund uuid.UUID, amount int64) error {
	if t.Status != Refunding || t.RefundID != refund {
		return t.notClaimed(refund)
	}
	t.Status, t.RefundID = Valid, uuid.Nil
	t.Given -= amount
	return nil
}

// EndRefund ends a ticket whose refund was made. ended is false for a ticket that its holder had
// passed on: its place belongs to the next ticket.
func (t *Ticket) EndRefund(refund uuid.UUID) (ended bool, err error) {
	if t.Status == Transferred {
		return false, nil
	}
	if t.Status != Refunding || t.RefundID != refund {
		return false, t.notClaimed(refund)
	}
	t.Status = Refunded
	return true, nil
}

func (t *Ticket) notClaimed(refund uuid.UUID) error {
	return fmt.Errorf("ticket %s is %s, refund %s: %w", t.ID, t.Status, refund, ErrNotClaimed)
}
