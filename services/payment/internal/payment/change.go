package payment

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// Never is a Change's Check that lets the sweeper forget the payment.
const Never time.Duration = -1

// Change is a decision about a payment. The store writes it in one transaction with its timeline
// entry, its event, its refund and the answers to requests that wait for it.
type Change struct {
	Status Status
	// Note is the timeline's sentence.
	Note string
	// PaymentKey, ChargeID and DeclineCode are kept as they are when empty.
	PaymentKey, ChargeID, DeclineCode string
	// Begins sets ConfirmingAt and takes a new lease.
	Begins bool
	// AbortDue is the new value.
	AbortDue bool
	// Check is when the sweeper looks next, from now; Never.
	Check time.Duration
	// Event to publish; empty: none. Refund is the one it speaks of.
	Event  Event
	Refund *Refund
	// NewRefund is to be made, or, when it has a ProviderID, was made already; GivenBack is added
	// to Refunded.
	NewRefund *Refund
	GivenBack int64
	// Answer is final and kept under the Idempotency-Keys of this payment; nil lets them go.
	Answer *Answer
}

// Decide looks at a locked payment, with the database's time, and says what becomes of it; nil:
// nothing.
type Decide func(p Payment, now time.Time) (*Change, error)

// begin starts the charging of a prepared payment; refused is why none may begin at present.
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

// expired ends a payment that was never charged.
func expired(p Payment, now time.Time) (*Change, error) {
	if p.Status != Prepared || now.Before(p.ExpiresAt) {
		return nil, nil //nolint:nilnil // nothing to do
	}
	return ended(p, "the time to pay is over"), nil
}

// ended gives up a payment that was never charged. If charging had begun once and was put back,
// ticket may hold the reference for it.
func ended(p Payment, note string) *Change {
	c := &Change{Status: Expired, Note: note, Check: Never}
	if !p.ConfirmingAt.IsZero() {
		c.AbortDue, c.Check = true, 0
	}
	return c
}

// captured says that the provider has the money, whenever that is learned. Nobody's lease counts:
// money always does. check is when the sweeper is to ask again, for what is to follow; Never.
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

// declined says that the provider has not charged and never will; the reference is then to be told.
// It holds whoever learned it.
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

// refused ends a payment that ticket would not have paid; nothing was charged. The answer is
// ticket's error, so none is kept.
func refused(lease int64, reason string) Decide {
	return held(lease, Change{Status: Declined, Note: "ticket refused the payment", DeclineCode: reason, Check: Never})
}

// unsettled says that the provider's answer is not known.
func unsettled(lease int64, note string) Decide {
	return held(lease, Change{Status: Unknown, Note: note, Check: firstLook})
}

// postponed puts a payment back whose charge was not sent.
func postponed(lease int64, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		c := Change{Status: Prepared, Note: note, Check: max(0, p.ExpiresAt.Sub(now))}
		return held(lease, c)(p, now)
	}
}

// held is a change that only the holder of the lease may make, and only while it charges.
func held(lease int64, c Change) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Confirming || p.Lease != lease {
			return nil, nil //nolint:nilnil // someone else has taken over
		}
		return &c, nil
	}
}

// compensated gives back everything that is left of a payment which cannot be honoured.
func compensated(id uuid.UUID, reason string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		left := p.Amount - p.Refunded - p.Pending
		switch {
		case p.Status != Confirmed && p.Status != Refunding, left == 0 && p.Amount > 0:
			return nil, nil //nolint:nilnil // nothing is left to give back
		default:
			return &Change{
				Status: Refunding, Note: "refunding: " + reason, Check: Never,
				NewRefund: &Refund{ID: id, PaymentID: p.ID, Amount: left, Cause: Compensation, Reason: reason},
			}, nil
		}
	}
}

// refunded says that the provider has given r back.
func refunded(r Refund) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		c := &Change{Status: Confirmed, Note: "refunded in part", Check: Never, GivenBack: r.Amount, Event: EventRefunded, Refund: &r}
		switch {
		case p.Refunded+r.Amount == p.Amount:
			c.Status, c.Note = Refunded, "refunded"
			if r.ProviderID == byHandProvider {
				c.Note = byHandNote
			}
		case p.Pending > r.Amount:
			c.Status = Refunding
		}
		return c, nil
	}
}

// answer is what a confirmation says of a payment as it stands.
func answer(p Payment) (Answer, error) {
	switch p.Status {
	case Confirmed, Refunding, Refunded:
		return Answer{Status: Confirmed, PaymentID: p.ID}, nil
	case Declined:
		// ticket's refusals are errors of the catalogue, a provider's codes are not.
		if e, ok := errs.Lookup(p.DeclineCode); ok && e.Kind.Client() {
			return Answer{}, e
		}
		return Answer{Status: Declined, DeclineCode: p.DeclineCode, PaymentID: p.ID}, nil
	case Expired:
		return Answer{}, expiry(p.Reference.Type)
	default:
		return Answer{Status: Unknown, PaymentID: p.ID}, nil
	}
}

// Final is the answer that may be kept for good; nil while the payment is open, and for what is
// answered by an error.
func Final(p Payment) *Answer {
	a, err := answer(p)
	if err != nil || a.Status == Unknown {
		return nil
	}
	return &a
}

// Same reports whether the open payment p also serves a request for n, at the database's time: once
// charging has begun it is the payment of its payer, before that it must still be what ticket asks
// for.
func (p Payment) Same(n Payment, now time.Time) bool {
	if p.UserID != n.UserID {
		return false
	}
	return p.Status != Prepared || now.Before(p.ExpiresAt) && p.Amount == n.Amount && p.Currency == n.Currency && p.Provider == n.Provider
}

// Superseded makes room for another payment of the same reference; ErrInProgress when the present
// one is being charged.
func Superseded(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Prepared {
		return nil, ErrInProgress
	}
	return ended(p, "another payment takes its place"), nil
}
