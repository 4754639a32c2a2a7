package payment

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// Never is the Check of a Change after which the sweeper ignores the payment.
const Never time.Duration = -1

// Change is a decision about a payment. The store writes it in one transaction with its timeline
// entry, its event, its refund and the answers to waiting requests.
type Change struct {
	Status Status
	// Note is the text of the timeline entry.
	Note string
	// PaymentKey, ChargeID and DeclineCode are unchanged when empty.
	PaymentKey, ChargeID, DeclineCode string
	// Begins sets ConfirmingAt and takes a new lease.
	Begins bool
	// AbortDue is the new value of the payment's field.
	AbortDue bool
	// Check is the time until the sweeper's next check, or Never.
	Check time.Duration
	// Event is published; empty: none. Refund is the refund it reports.
	Event  Event
	Refund *Refund
	// NewRefund is inserted: as pending, or as done when it has a ProviderID. AddRefunded is added
	// to Refunded.
	NewRefund   *Refund
	AddRefunded int64
	// Answer is final and stored under the Idempotency-Keys of this payment; nil releases them.
	Answer *Answer
}

// Decide returns the change of a locked payment at the database's time; nil: none.
type Decide func(p Payment, now time.Time) (*Change, error)

// begin starts the charge of a prepared payment; refused is the error for which new charges are
// refused at present.
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

// ended ends a payment that was never charged. If charging had begun before, ticket may hold the
// reference for it.
func ended(p Payment, note string) *Change {
	c := &Change{Status: Expired, Note: note, Check: Never}
	if !p.ConfirmingAt.IsZero() {
		c.AbortDue, c.Check = true, 0
	}
	return c
}

// captured records that the provider has the money, whenever that is learned. It needs no lease: a
// capture always counts. check is when the sweeper checks again, or Never.
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
		return &Change{
			Status: Confirmed, Note: note, ChargeID: chargeID, Check: check, Event: EventConfirmed,
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

// postponed returns a payment whose charge was not sent to PREPARED.
func postponed(lease int64, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		c := Change{Status: Prepared, Note: note, Check: max(0, p.ExpiresAt.Sub(now))}
		return whileLeaseHeld(lease, c)(p, now)
	}
}

// whileLeaseHeld makes the change only while the payment is CONFIRMING under the given lease.
func whileLeaseHeld(lease int64, c Change) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Confirming || p.Lease != lease {
			return nil, nil //nolint:nilnil // someone else has taken over
		}
		return &c, nil
	}
}

// compensated refunds what is left of a payment that cannot be honoured.
func compensated(id uuid.UUID, reason string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		left := p.Amount - p.Refunded - p.Pending
		switch {
		case p.Status != Confirmed && p.Status != Refunding, left == 0 && p.Amount > 0:
			return nil, nil //nolint:nilnil // nothing is left to refund
		default:
			return &Change{
				Status: Refunding, Note: "refunding: " + reason, Check: Never,
				NewRefund: &Refund{ID: id, PaymentID: p.ID, Amount: left, Cause: Compensation, Reason: reason},
			}, nil
		}
	}
}

// refunded records that the provider has made the refund r.
func refunded(r Refund) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		c := &Change{Status: Confirmed, Note: "refunded in part", Check: Never, AddRefunded: r.Amount, Event: EventRefunded, Refund: &r}
		switch {
		case p.Refunded+r.Amount == p.Amount:
			c.Status, c.Note = Refunded, "refunded"
			if r.ProviderID == manualRefundID {
				c.Note = manualRefundNote
			}
		case p.Pending > r.Amount:
			c.Status = Refunding
		}
		return c, nil
	}
}

// answer returns the answer to a confirmation of the payment in its current state.
func answer(p Payment) (Answer, error) {
	switch p.Status {
	case Confirmed, Refunding, Refunded:
		return Answer{Status: Confirmed, PaymentID: p.ID}, nil
	case Declined:
		// Ticket's refusals are errors of the catalogue; a provider's codes are not.
		if e, ok := errs.Lookup(p.DeclineCode); ok && e.Kind.Client() {
			return Answer{}, e
		}
		return Answer{Status: Declined, DeclineCode: p.DeclineCode, PaymentID: p.ID}, nil
	case Expired:
		return Answer{}, expiryError(p.Reference.Type)
	default:
		return Answer{Status: Unknown, PaymentID: p.ID}, nil
	}
}

// Final returns the answer that may be stored permanently; nil while the payment is open, and when
// the answer is an error.
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

// Superseded ends a prepared payment in favour of a new one for the same reference; ErrInProgress
// when it is being charged.
func Superseded(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Prepared {
		return nil, ErrInProgress
	}
	return ended(p, "another payment takes its place"), nil
}
