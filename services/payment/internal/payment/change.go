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
	// Page and ExpiresAt are set when a page was opened; the key of an attempt before it is then dropped.
	Page      Page
	ExpiresAt time.Time
	// Begins counts a charge, sets its time and takes a new lease.
	Begins bool
	// Unsent takes this back, but for the lease, since the charge was not sent: ChargedAt is the time of
	// the one before. The sweeper's attempts are counted on.
	Unsent    bool
	ChargedAt time.Time
	// NoCharge sets the payment's field.
	NoCharge bool
	// AbortDue and CancelDue are the new values of the payment's fields.
	AbortDue, CancelDue bool
	// Check is the time until the sweeper's next check, Never or Keep.
	Check time.Duration
	// Event is published; empty: none. Refund is the refund that the event reports.
	Event  Event
	Refund *Refund
	// NewRefund is inserted. Nothing is changed if there is a refund of the same cause and request.
	NewRefund *Refund
	// Disputed sets or clears Payment.DisputedAt; nil: unchanged.
	Disputed *bool
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
		case !p.Status.Uncharged():
			return nil, nil //nolint:nilnil // the payment's own status is the answer
		case !now.Before(p.ExpiresAt):
			return expired(p, now)
		case refused != nil:
			return nil, refused
		case p.Status == Open && p.PaymentKey != "": // the one that came back from the page first
			return charging(p.PaymentKey, lease), nil
		default:
			return charging(r.PaymentKey, lease), nil
		}
	}
}

func charging(key string, lease time.Duration) *Change {
	return &Change{Status: Confirming, Note: "charging", PaymentKey: key, Begins: true, Check: lease}
}

// chargedBySweeper starts a charge that no request waits for: of an open payment whose buyer has paid
// on the page, or again of one whose outcome is unknown. Only a payment without a key takes key.
func chargedBySweeper(seen Payment, key string, caps Capabilities) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		if p.Lease != seen.Lease || p.Status != seen.Status || p.NoCharge || p.Status == Open && !now.Before(p.ExpiresAt.Add(caps.pageMargin())) {
			return nil, nil //nolint:nilnil // somebody else has it, or it is over
		}
		if p.PaymentKey != "" {
			key = p.PaymentKey
		}
		c := charging(key, caps.claimTime())
		if p.Status != Open {
			c.Note = "charging again"
		}
		return c, nil
	}
}

// opened records the page of a prepared payment, which nobody has the address of before.
func opened(page Page, until time.Time) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		if p.Status != Prepared {
			return nil, nil //nolint:nilnil // opened by another request, or ended
		}
		check := until.Sub(now)
		if page.Ref != "" {
			check = min(check, pagePolls[0])
		}
		return &Change{Status: Open, Note: "the page is open", Page: page, ExpiresAt: until, Check: check}, nil
	}
}

// returned stores the key that the buyer brought back from the page; the sweeper charges with it. A
// later one, as of a second tab, changes nothing.
func returned(key string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Open || p.PaymentKey != "" {
			return nil, nil //nolint:nilnil // its own state is the answer
		}
		return &Change{Status: Open, Note: "back from the page", PaymentKey: key}, nil
	}
}

// givenUp ends a payment at the wish of its payer.
func givenUp(userID string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		switch {
		case p.UserID != userID:
			return nil, ErrNotFound
		case p.Status.Unsettled():
			return nil, ErrInProgress
		case p.Status == Confirmed || p.Status == Refunded:
			return nil, ErrAlreadyPaid
		case p.Status.Uncharged():
			return ended(p, "the payer gave up"), nil
		default:
			return nil, nil //nolint:nilnil // it has ended already
		}
	}
}

// closed ends an open payment whose page can no longer be paid on.
func closed(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Open {
		return nil, nil //nolint:nilnil // somebody else has it
	}
	return ended(p, "the page is closed"), nil
}

// reclaimed gives back a claim that came after the payment's end.
func reclaimed(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Expired && p.Status != Declined {
		return nil, nil //nolint:nilnil // the claim is the payment's
	}
	return &Change{Status: p.Status, CancelDue: p.CancelDue, AbortDue: true, Check: abortRetry}, nil
}

// expired ends a payment that was not charged in time.
func expired(p Payment, now time.Time) (*Change, error) {
	if !p.Status.Uncharged() || now.Before(p.ExpiresAt) {
		return nil, nil //nolint:nilnil // nothing to do
	}
	return ended(p, "the time to pay is over"), nil
}

// ended ends a payment that was never charged. If charging had begun before, or its page may have
// been opened, ticket may hold the reference for it.
func ended(p Payment, note string) *Change {
	c := &Change{Status: Expired, Note: note, Check: Never, CancelDue: p.Ref != ""}
	if !p.ConfirmingAt.IsZero() || p.Token != "" {
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
		case Declined, Expired, Prepared, Open:
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
			Status: Declined, Note: note, DeclineCode: code, AbortDue: true, CancelDue: p.Ref != "", Check: abortRetry, Event: EventDeclined,
			Answer: &Answer{Status: Declined, DeclineCode: code, PaymentID: p.ID},
		}, nil
	}
}

// unreachable declines a payment whose charge could not be sent.
func unreachable(lease int64) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		c, err := declined(declineUnreachable, "the provider could not be reached")(p, now)
		if c == nil || err != nil {
			return c, err
		}
		return whileLeaseHeld(lease, *c)(p, now)
	}
}

// refused ends a payment that ticket refused; nothing was charged. The answer is ticket's error,
// which is not stored. A payment with a page has claimed the reference before.
func refused(lease int64, reason string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		return whileLeaseHeld(lease, *refusal(p, reason))(p, now)
	}
}

// refusedPage is refused for a payment whose page was to be opened.
func refusedPage(reason string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Prepared {
			return nil, nil //nolint:nilnil // opened by another request, or ended
		}
		return refusal(p, reason), nil
	}
}

func refusal(p Payment, reason string) *Change {
	c := &Change{
		Status: Declined, Note: "ticket refused the payment", DeclineCode: reason, Check: Never, CancelDue: p.Ref != "", Event: EventDeclined,
	}
	if p.Token != "" {
		c.AbortDue, c.Check = true, abortRetry
	}
	return c
}

// unsettled records that the provider's answer is unknown. The more often it was charged, the later
// the provider is asked.
func unsettled(lease int64, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		wait := min(firstPoll<<min(max(p.Attempt-1, 0), 5), maxPoll)
		return whileLeaseHeld(lease, Change{Status: Unknown, Note: note, Check: wait})(p, now)
	}
}

// notAgain records that a payment of which a charge may have been made before was not charged again.
// The more often, the later it is tried.
func notAgain(lease int64, before Payment, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		c := Change{Status: Unknown, Note: note, Unsent: true, ChargedAt: before.ChargedAt, Check: backoff(p.Checks, maxPoll)}
		return whileLeaseHeld(lease, c)(p, now)
	}
}

// lost records that the reference cannot be claimed any more: a charge that may have been made
// before is only looked for, or made impossible.
func lost(lease int64, before Payment) Decide {
	return whileLeaseHeld(lease, Change{
		Status: Unknown, Note: "not charged again: the hold is lost", NoCharge: true, Unsent: true, ChargedAt: before.ChargedAt, Check: firstPoll,
	})
}

// postponed returns a payment whose charge was not sent to where it came from: PREPARED, or OPEN,
// from where the sweeper tries again with the same key, the later the more often it has. A hint that
// came meanwhile waits as long.
func postponed(lease int64, from Status, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		left := p.ExpiresAt.Sub(now)
		c := Change{Status: from, Note: note, Unsent: true, Check: max(0, left)}
		if from == Open || p.Hinted {
			c.Check = max(abortRetry, backoff(p.Checks, maxPoll))
		}
		if left > 0 {
			c.Check = min(c.Check, left)
		}
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
			Status: p.Status, AbortDue: p.AbortDue, CancelDue: p.CancelDue, Check: Keep, Captured: out.Amount, ChargeID: out.ChargeID,
			Note: fmt.Sprintf("charged %d instead of %d: it is refunded", out.Amount, p.Amount),
			NewRefund: &Refund{
				ID: refundID, PaymentID: p.ID, Provider: p.Provider, Cause: Compensation, Reason: declineWrongAmount, Status: RefundPending,
				Amount: out.Amount,
			},
		}
		if p.Status.Unsettled() || p.Status.Uncharged() {
			c.Status, c.DeclineCode, c.AbortDue, c.Check, c.Event = Declined, declineWrongAmount, true, abortRetry, EventDeclined
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
		Status: p.Status, Note: note, AbortDue: p.AbortDue, CancelDue: p.CancelDue, Check: Keep, AddRefunded: refunded, AddHand: hand, AddHandUsed: handUsed,
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
	return !p.Status.Uncharged() || now.Before(p.ExpiresAt) && p.Amount == n.Amount && p.Currency == n.Currency && p.Provider == n.Provider
}

// Superseded ends an uncharged payment in favour of a new one for the same reference. It fails with
// ErrInProgress when p is being charged.
func Superseded(p Payment, _ time.Time) (*Change, error) {
	if !p.Status.Uncharged() {
		return nil, ErrInProgress
	}
	return ended(p, "another payment takes its place"), nil
}
