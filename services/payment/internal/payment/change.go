package payment

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// Values of Change.Check. Never makes the sweeper ignore the payment from then on. Keep leaves the
// time of the payment's next check as it is.
const (
	Never time.Duration = -1
	Keep  time.Duration = -2
)

// Change is a decision about a payment. The store writes it in one transaction with its timeline
// entry, its event, its refund and the answers to waiting requests.
type Change struct {
	Status Status
	// Note is the text of the timeline entry; empty: there is none.
	Note string
	// PaymentKey, ChargeID and DeclineCode are unchanged when empty.
	PaymentKey, ChargeID, DeclineCode string
	// Begins says that charging begins: the store sets ConfirmingAt and takes a new lease.
	Begins bool
	// AbortDue is the new value of Payment.AbortDue.
	AbortDue bool
	// Check is the time until the sweeper's next check, Never or Keep.
	Check time.Duration
	// Event is published; empty: none. Refund is the refund that the event reports.
	Event  Event
	Refund *Refund
	// NewRefund is inserted. Nothing is changed if there is a refund of the same cause and request.
	NewRefund *Refund
	// Captured is the new value of Payment.Captured; 0: unchanged. The others are added to Refunded,
	// Hand and HandUsed of the payment.
	Captured, AddRefunded, AddHand, AddHandUsed int64
	// Answer is final and stored under the Idempotency-Keys of this payment; nil releases them.
	Answer *Answer
}

// Decide returns the change to make to a payment whose row is locked; nil: none. now is the
// database's time.
type Decide func(p Payment, now time.Time) (*Change, error)

// begin starts the charge of a prepared payment. refused is the error with which all new charges
// are refused at present; nil: they are taken.
func begin(r ConfirmRequest, lease time.Duration, refused error) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		switch {
		case p.UserID != r.UserID:
			return nil, ErrNotFound
		case p.Amount != r.Amount:
			return nil, ErrAmountMismatch
		case p.Status != Prepared:
			return nil, nil //nolint:nilnil // the payment's own status is the answer
		case !now.Before(p.ExpiresAt):
			return expired(p, now)
		case refused != nil:
			return nil, refused
		default:
			return &Change{Status: Confirming, Note: "charging", PaymentKey: r.PaymentKey, Begins: true, Check: lease}, nil
		}
	}
}

// expired ends a payment that was not charged in time.
func expired(p Payment, now time.Time) (*Change, error) {
	if p.Status != Prepared || now.Before(p.ExpiresAt) {
		return nil, nil //nolint:nilnil // nothing to do
	}
	return ended(p, "the time to pay is over"), nil
}

// ended ends a payment that was never charged. If charging had begun, ticket may still hold the
// reference for the payment, and is told to release it.
func ended(p Payment, note string) *Change {
	c := &Change{Status: Expired, Note: note, Check: Never}
	if !p.ConfirmingAt.IsZero() {
		c.AbortDue, c.Check = true, 0
	}
	return c
}

// captured records that the provider has charged the payment, however late this becomes known. It
// needs no lease: a capture always counts. check is the wait for the sweeper's check, or Never.
func captured(chargeID string, check time.Duration) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		note := "charged"
		switch p.Status {
		case Confirming, Unknown:
		case Declined, Expired, Prepared:
			note = "charged after all"
		default:
			return nil, nil //nolint:nilnil // known already
		}
		if p.Captured != 0 { // another amount, which is given back
			return nil, nil //nolint:nilnil // known already
		}
		return &Change{
			Status: Confirmed, Note: note, ChargeID: chargeID, Captured: p.Amount, Check: check, Event: EventConfirmed,
			Answer: &Answer{Status: Confirmed, PaymentID: p.ID},
		}, nil
	}
}

// declined records that the provider has not charged and never will; the reference is then
// released. It needs no lease.
func declined(code, note string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if !p.Status.Unsettled() {
			return nil, nil //nolint:nilnil // settled already
		}
		return &Change{
			Status: Declined, Note: note, DeclineCode: code, AbortDue: true, Check: abortRetry,
			Answer: &Answer{Status: Declined, DeclineCode: code, PaymentID: p.ID},
		}, nil
	}
}

// refused ends a payment that ticket refused; nothing was charged. The answer is ticket's error,
// which is not stored.
func refused(lease int64, reason string) Decide {
	return whileLeaseHeld(lease, Change{Status: Declined, Note: "ticket refused the payment", DeclineCode: reason, Check: Never})
}

// unsettled records that the provider's answer is unknown.
func unsettled(lease int64, note string) Decide {
	return whileLeaseHeld(lease, Change{Status: Unknown, Note: note, Check: firstPoll})
}

// postponed makes a payment PREPARED again, since its charge was not sent.
func postponed(lease int64, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		c := Change{Status: Prepared, Note: note, Check: max(0, p.ExpiresAt.Sub(now))}
		return whileLeaseHeld(lease, c)(p, now)
	}
}

// whileLeaseHeld makes the change c only if the payment is CONFIRMING and still has this lease.
func whileLeaseHeld(lease int64, c Change) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Confirming || p.Lease != lease {
			return nil, nil //nolint:nilnil // someone else has taken over
		}
		return &c, nil
	}
}

// wrongAmount records that the provider took another amount than was asked for: the payment is not
// honoured, and all of it is refunded. refundID is the id of the new refund.
func wrongAmount(refundID uuid.UUID, out Outcome) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Captured != 0 || p.Status == Confirmed || p.Status == Refunded {
			return nil, nil //nolint:nilnil // known already
		}
		c := &Change{
			Status: p.Status, AbortDue: p.AbortDue, Check: Keep, Captured: out.Amount, ChargeID: out.ChargeID,
			Note: fmt.Sprintf("charged %d instead of %d: it is refunded", out.Amount, p.Amount),
			NewRefund: &Refund{
				ID: refundID, PaymentID: p.ID, Provider: p.Provider, Cause: Compensation, Reason: declineWrongAmount, Status: RefundPending,
				Amount: out.Amount,
			},
		}
		if p.Status.Unsettled() || p.Status == Prepared {
			c.Status, c.DeclineCode, c.AbortDue, c.Check = Declined, declineWrongAmount, true, abortRetry
			c.Answer = &Answer{Status: Declined, DeclineCode: declineWrongAmount, PaymentID: p.ID}
		}
		return c, nil
	}
}

// declineWrongAmount is the decline code of a charge of another amount than requested.
const declineWrongAmount = "WRONG_AMOUNT"

// withMoney returns the change that adds sums to Refunded (less than 0: a refund has failed), Hand
// and HandUsed of the payment. The payment is REFUNDED while all that was captured is refunded.
func (p Payment) withMoney(refunded, hand, handUsed int64, note string) *Change {
	c := &Change{
		Status: p.Status, Note: note, AbortDue: p.AbortDue, Check: Keep, AddRefunded: refunded, AddHand: hand, AddHandUsed: handUsed,
	}
	gone := p.Captured > 0 && p.Refunded+refunded >= p.Captured
	switch {
	case p.Status == Confirmed && gone:
		c.Status = Refunded
	case p.Status == Refunded && p.Captured > 0 && !gone:
		c.Status = Confirmed
	}
	return c
}

// answer returns the answer to a confirmation of the payment in its current state.
func answer(p Payment) (Answer, error) {
	switch p.Status {
	case Confirmed, Refunded:
		return Answer{Status: Confirmed, PaymentID: p.ID}, nil
	case Declined:
		// Ticket's refusals are errors of the catalogue; a provider's codes are not.
		if e, ok := errs.Lookup(p.DeclineCode); ok && e.Kind.CausedByClient() {
			return Answer{}, e
		}
		return Answer{Status: Declined, DeclineCode: p.DeclineCode, PaymentID: p.ID}, nil
	case Expired:
		return Answer{}, expiryError(p.Reference.Type)
	default:
		return Answer{Status: Unknown, PaymentID: p.ID}, nil
	}
}

// Final returns the answer to a confirmation of p that may be stored permanently; nil while the
// payment is open, and when the answer is an error.
func Final(p Payment) *Answer {
	a, err := answer(p)
	if err != nil || a.Status == Unknown {
		return nil
	}
	return &a
}

// ReusableFor reports whether the open payment p can be returned to a request for n, at the
// database's time. Once charging has begun only the payer must match; before that the terms must
// still be those of ticket.
func (p Payment) ReusableFor(n Payment, now time.Time) bool {
	if p.UserID != n.UserID {
		return false
	}
	return p.Status != Prepared || now.Before(p.ExpiresAt) && p.Amount == n.Amount && p.Currency == n.Currency && p.Provider == n.Provider
}

// Superseded ends a prepared payment in favour of a new one for the same reference. It fails with
// ErrInProgress when p is being charged.
func Superseded(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Prepared {
		return nil, ErrInProgress
	}
	return ended(p, "another payment takes its place"), nil
}
