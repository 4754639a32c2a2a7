package payment

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Settled is what became of a payment at the ticket service.
type Settled struct {
	PaymentID uuid.UUID
	// Rejected is why the payment has paid for nothing; empty: it has paid, and the other fields are set.
	Rejected string
	// UserID is who got the tickets or the membership.
	UserID string
	// Paid is the sum of what it has paid for. Kept is the part of it that was neither given back nor
	// promised to be. Both are in the currency's minor unit.
	Paid, Kept int64
	Currency   string
}

// Left returns what the payment still has: what was captured, less what was given back, or is owed by
// one of its refunds, which are all that Refund.Holds. Money that a person gave back and that counts
// for nothing yet may still be for anything, so it is not subtracted.
func (p Payment) Left(refunds []Refund) int64 {
	left := p.Captured - p.Refunded + p.RefundedByHand - p.ByHandCounted
	for _, r := range refunds {
		switch r.Status { //nolint:exhaustive // the others are in Refunded, or give nothing back
		case RefundPending, RefundHeld, RefundResolved:
			left -= r.Send
		case RefundRequested: // what is reserved in HandUsed, until the ticket service has said how much counts
			left += r.Scope.HandLimit
		}
	}
	return left
}

// owe stores a refund that the ticket service has decided, as a Kafka event says, once per event key.
// The event alone proves nothing: the ticket service must say the same. Errors: ErrNotFound, ErrNotOwed,
// and those of the call, when nothing is known.
func (s *Service) owe(ctx context.Context, eventKey string, paymentID uuid.UUID, r Refund) error {
	for tries := 1; ; tries++ {
		at, err := s.settled(ctx, paymentID)
		if err != nil {
			return fmt.Errorf("ask for what became of payment %s: %w", paymentID, err)
		}
		err = s.store.ApplyOnce(ctx, eventKey, paymentID, owed(r, at))
		// Another refund may have been begun since the answer.
		if !errors.Is(err, ErrNotOwed) || tries == maxAsked {
			return err
		}
	}
}

// maxAsked is how often the ticket service is asked about one refund that it does not seem to owe.
const maxAsked = 3

// settled returns what became of a payment at the ticket service; zero if that does not know it.
func (s *Service) settled(ctx context.Context, id uuid.UUID) (Settled, error) {
	ctx, cancel := context.WithTimeout(ctx, ticketTimeout)
	defer cancel()
	list, err := s.tickets.Settled(ctx, id)
	if err != nil || len(list) == 0 {
		return Settled{}, err
	}
	return list[0], nil
}

// proves reports whether the ticket service has decided the refund r of the payment p, whose other
// refunds are given. A compensation is of a payment that it has rejected. Any other refund was promised
// before its event: what the ticket service keeps is then less than what the payment has left.
func (at Settled) proves(r Refund, p Payment, others []Refund) bool {
	if r.Cause == Compensation {
		return at.Rejected != ""
	}
	return at.PaymentID == p.ID && at.Rejected == "" && r.Amount <= p.Left(others)-at.Kept
}
