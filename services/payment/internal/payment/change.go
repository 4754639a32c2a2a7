package payment

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// Never and Keep are special values of Change.Check. With Never the sweeper does not check the
// payment again. With Keep the time of the next check stays unchanged.
const (
	Never time.Duration = -1
	Keep  time.Duration = -2
)

// Change is a decision about a payment. The store writes it in one transaction with its timeline
// entry, its Kafka event, its refund and the answers to waiting requests.
type Change struct {
	Status Status
	// Note is the text of the timeline entry. If it is empty, no entry is written.
	Note string
	// An empty PaymentKey, ChargeID, ReceiptURL, DeclineCode or KeptCode leaves the payment's value
	// unchanged.
	PaymentKey, ChargeID, ReceiptURL, DeclineCode, KeptCode string
	// Page and ExpiresAt are set when a page was opened. The store then clears the PaymentKey.
	Page      Page
	ExpiresAt time.Time
	// Begins starts a charge: it increments Payment.Attempt and Lease, and sets ChargedAt to now.
	Begins bool
	// Unsent says that the charge was not sent. It decrements Attempt, keeps Checks, and sets the
	// payment's ChargedAt to this ChargedAt, the time of the previous charge. Hinted says that the payment
	// was Hinted before this charge.
	Unsent, Hinted bool
	ChargedAt      time.Time
	// NoCharge sets Payment.NoCharge: the payment is not charged again. With Lost its claim is not
	// prolonged either.
	NoCharge, Lost bool
	// AbortDue and CancelDue are the new values of the payment's fields of the same names.
	AbortDue, CancelDue bool
	// Check is the time until the sweeper's next check, Never or Keep.
	Check time.Duration
	// WholeOnly is Outcome.WholeOnly of a capture, which the event reports.
	WholeOnly bool
	// Event is the Kafka event to publish; empty: none. Refund is the refund that the event reports.
	Event  Event
	Refund *Refund
	// NewRefund is inserted. Nothing changes if the payment has one of the same cause and Request.
	NewRefund *Refund
	// Disputed sets or clears Payment.DisputedAt, and EvidenceDue is the new value of the payment's field;
	// nil: both are unchanged.
	Disputed    *bool
	EvidenceDue time.Time
	// Captured is the new value of Payment.Captured; 0: unchanged. The others are added to the
	// fields of Payment with these names. Goodwill then shrinks to what ByHandCounted leaves.
	Captured, AddRefunded, AddRefundedByHand, AddByHandCounted, AddGoodwill int64
	// Answer is stored under the payment's Idempotency-Keys; nil: the keys may be used again.
	Answer *Answer
}

// Decide returns the change to make to the payment p, whose row is locked; nil: no change. now is
// the database's time.
type Decide func(p Payment, now time.Time) (*Change, error)

// begin starts the charge of a PREPARED or OPEN payment. If the service refuses new charges at
// present, refused is the error to return; otherwise it is nil.
func begin(r ConfirmRequest, lease time.Duration, refused error) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		switch {
		case p.UserID != r.UserID:
			return nil, ErrNotFound
		case p.Amount != r.Amount:
			return nil, ErrAmountMismatch
		case !p.Status.Uncharged():
			return nil, nil //nolint:nilnil // the caller answers with the payment's status
		case !now.Before(p.ExpiresAt) && p.Awaited():
			return nil, nil //nolint:nilnil // the sweeper charges it, if it was paid on the page
		case !now.Before(p.ExpiresAt):
			return expired(p, now)
		case refused != nil:
			return nil, refused
		case p.Status == Open && p.PaymentKey != "": // the first key that the buyer brought back from the page
			return charging(p.PaymentKey, lease), nil
		default:
			return charging(r.PaymentKey, lease), nil
		}
	}
}

func charging(key string, lease time.Duration) *Change {
	return &Change{Status: Confirming, Note: "charging", PaymentKey: key, Begins: true, Check: lease}
}

// chargedBySweeper starts a charge that no request waits for: of an OPEN payment whose buyer has
// paid on the page, or again of an UNKNOWN one. key is used only if the payment has no key.
func chargedBySweeper(seen Payment, key string, caps Capabilities) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		if p.Lease != seen.Lease || p.Status != seen.Status || p.NoCharge || p.Status == Open && !p.Awaited() && !now.Before(p.ExpiresAt.Add(caps.pageMargin())) {
			return nil, nil //nolint:nilnil // another process has changed the payment, or the time to pay is over
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

// opened records the page of a PREPARED payment. The buyer gets its address only after that.
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
// later key, for example from a second tab, is ignored.
func returned(key string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Open || p.PaymentKey != "" {
			return nil, nil //nolint:nilnil // the caller shows the payment as it is
		}
		return &Change{Status: Open, Note: "back from the page", PaymentKey: key}, nil
	}
}

// declinedOnPage records that an attempt to pay was declined on the provider's page. The buyer may try
// again there.
func declinedOnPage(code string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Open || p.DeclineCode == code {
			return nil, nil //nolint:nilnil // it has ended, or the code is stored already
		}
		return &Change{Status: Open, Note: "declined on the page", DeclineCode: code, Check: Keep}, nil
	}
}

// givenUp ends a payment that the user userID cancels, if no charge has begun.
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

// closed ends an OPEN payment whose page cannot be paid on any more.
func closed(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Open {
		return nil, nil //nolint:nilnil // it has ended, or is being charged
	}
	return ended(p, "the page is closed"), nil
}

// reclaimed releases a claim that the ticket service may have granted after the payment's end.
func reclaimed(p Payment, _ time.Time) (*Change, error) {
	if p.Status != Expired && p.Status != Declined {
		return nil, nil //nolint:nilnil // the payment still needs the claim
	}
	return &Change{Status: p.Status, CancelDue: p.CancelDue, AbortDue: true, Check: abortRetry}, nil
}

// expired ends a payment that was not charged by its ExpiresAt.
func expired(p Payment, now time.Time) (*Change, error) {
	if !p.Status.Uncharged() || now.Before(p.ExpiresAt) {
		return nil, nil //nolint:nilnil // nothing to do
	}
	return ended(p, "the time to pay is over"), nil
}

// ended ends a payment that was never charged. If a charge was tried, or its page may have been
// opened, the ticket service may keep the reference for it: then the sweeper releases it.
func ended(p Payment, note string) *Change {
	c := &Change{Status: Expired, Note: note, Check: Never, CancelDue: p.Ref != ""}
	if !p.ConfirmingAt.IsZero() || p.HasPage() {
		c.AbortDue, c.Check = true, 0
	}
	return c
}

// captured records that the provider has charged the payment, however late this becomes known. It
// ignores leases, since a capture always counts. check is the value of Change.Check.
func captured(out Outcome, check time.Duration) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		note := "charged"
		switch p.Status {
		case Confirming, Unknown:
		case Declined, Expired, Prepared, Open:
			note = "charged after all"
		default:
			return nil, nil //nolint:nilnil // known already
		}
		if p.Captured != 0 { // a wrong amount was charged, and is refunded
			return nil, nil //nolint:nilnil // known already
		}
		return &Change{
			Status: Confirmed, Note: note, ChargeID: out.ChargeID, ReceiptURL: out.ReceiptURL, WholeOnly: out.WholeOnly, Captured: p.Amount, Check: check,
			Event:  EventConfirmed,
			Answer: &Answer{Status: Confirmed, PaymentID: p.ID},
		}, nil
	}
}

// declined records that the provider has not charged the payment and never will. The reference is
// then released. It ignores leases.
func declined(code, note string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if !p.Status.Unsettled() {
			return nil, nil //nolint:nilnil // the outcome is recorded already
		}
		return &Change{
			Status: Declined, Note: note, DeclineCode: code, AbortDue: true, CancelDue: p.Ref != "", Check: abortRetry, Event: EventDeclined,
			Answer: &Answer{Status: Declined, DeclineCode: code, PaymentID: p.ID},
		}, nil
	}
}

// unreachable declines a payment whose charge was certainly not sent to the provider.
func unreachable(lease int64) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		c, err := declined(declineUnreachable, "the provider could not be reached")(p, now)
		if c == nil || err != nil {
			return c, err
		}
		return whileLeaseHeld(lease, *c)(p, now)
	}
}

// refused ends a payment that the ticket service refused before anything was charged. The buyer
// gets that service's error, which is not stored. If the payment has a page, its claim is released.
func refused(lease int64, reason string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		return whileLeaseHeld(lease, *refusal(p, reason, refusedByTicket))(p, now)
	}
}

const refusedByTicket = "ticket refused the payment"

// refusedPage ends a PREPARED payment that the ticket service refused before a page was opened.
func refusedPage(reason string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Prepared {
			return nil, nil //nolint:nilnil // opened by another request, or ended
		}
		return refusal(p, reason, refusedByTicket), nil
	}
}

// declineNotTaken is the decline code of a payment that the provider will never take.
const declineNotTaken = "NOT_TAKEN"

// notTaken ends a PREPARED payment for which the provider will never open a page. code is the
// provider's reason.
func notTaken(code string) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Prepared {
			return nil, nil //nolint:nilnil // opened by another request, or ended
		}
		return refusal(p, declineNotTaken, strings.TrimSuffix("the provider does not take it: "+code, ": ")), nil
	}
}

func refusal(p Payment, reason, note string) *Change {
	c := &Change{
		Status: Declined, Note: note, DeclineCode: reason, Check: Never, CancelDue: p.Ref != "", Event: EventDeclined,
	}
	if p.HasPage() {
		c.AbortDue, c.Check = true, abortRetry
	}
	return c
}

// unsettled records that the outcome of a charge is unknown. The sweeper asks the provider after a
// wait, which grows with the number of charges.
func unsettled(lease int64, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		wait := min(firstPoll<<min(max(p.Attempt-1, 0), 5), maxPoll)
		return whileLeaseHeld(lease, Change{Status: Unknown, Note: note, Check: wait})(p, now)
	}
}

// notAgain records that a payment was not charged again, although an earlier charge may have been
// made. The wait before the next attempt grows with the number of checks.
func notAgain(lease int64, before Payment, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		c := Change{Status: Unknown, Note: note, Unsent: true, ChargedAt: before.ChargedAt, Check: backoff(p.Checks, maxPoll)}
		return whileLeaseHeld(lease, c)(p, now)
	}
}

// lost records that the reference of an UNKNOWN payment cannot be claimed any more. The sweeper
// then asks the provider whether an earlier charge was made, or voids it.
func lost(lease int64, before Payment) Decide {
	return whileLeaseHeld(lease, Change{
		Status: Unknown, Note: "not charged again: the hold is lost", NoCharge: true, Lost: true, Unsent: true, ChargedAt: before.ChargedAt, Check: firstPoll,
	})
}

// answered records that the provider has answered a charge with an error that it keeps under the
// charge's key. If it has only repeated its answer, this was no charge, and none is sent any more: the
// outcome is final as long after the charge before as if nothing had been sent since.
func answered(lease int64, before Payment, code string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		if p.KeptCode == code {
			c := Change{
				Status: Unknown, Note: "not charged again: the provider repeats its answer", NoCharge: true, Unsent: true, ChargedAt: before.ChargedAt,
				Check: firstPoll,
			}
			return whileLeaseHeld(lease, c)(p, now)
		}
		c, err := unsettled(lease, "the provider answered with an error")(p, now)
		if c != nil {
			c.KeptCode = code
		}
		return c, err
	}
}

// postponed returns a payment whose charge was not sent to its earlier status, PREPARED or OPEN.
// The sweeper charges an OPEN payment again with the same key, after a wait that grows with each
// check. If a webhook came meanwhile, the provider is asked after the same wait.
func postponed(lease int64, before Payment, note string) Decide {
	return func(p Payment, now time.Time) (*Change, error) {
		remaining := p.ExpiresAt.Sub(now)
		c := Change{Status: before.Status, Note: note, Unsent: true, Hinted: before.Hinted, Check: max(0, remaining)}
		if before.Status == Open || p.Hinted {
			c.Check = max(abortRetry, backoff(p.Checks, maxPoll))
		}
		if remaining > 0 && !before.Awaited() {
			c.Check = min(c.Check, remaining)
		}
		return whileLeaseHeld(lease, c)(p, now)
	}
}

// whileLeaseHeld makes the change c only if the payment is CONFIRMING and still has this lease.
func whileLeaseHeld(lease int64, c Change) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Confirming || p.Lease != lease {
			return nil, nil //nolint:nilnil // another process has taken over
		}
		return &c, nil
	}
}

// wrongAmount records that the provider captured a wrong amount. The payment is not CONFIRMED, and
// the whole amount is refunded. refundID is the id of the new refund.
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

// declineWrongAmount is the decline code after a charge of a wrong amount.
const declineWrongAmount = "WRONG_AMOUNT"

// withMoney returns the change that adds amounts to Refunded, Hand and HandUsed. A negative
// refunded undoes a failed refund. The payment is REFUNDED while all captured money is refunded.
func (p Payment) withMoney(refunded, hand, handUsed int64, note string) *Change {
	c := &Change{
		Status: p.Status, Note: note, AbortDue: p.AbortDue, CancelDue: p.CancelDue, Check: Keep, AddRefunded: refunded, AddRefundedByHand: hand, AddByHandCounted: handUsed,
	}
	allRefunded := p.Captured > 0 && p.Refunded+refunded >= p.Captured
	switch {
	case p.Status == Confirmed && allRefunded:
		c.Status = Refunded
	case p.Status == Refunded && p.Captured > 0 && !allRefunded:
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
		// A refusal by the ticket service is an error of pkg/errs. A provider's decline code is not.
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

// Final returns the answer to a confirmation of p if it may be stored for good. It is nil while the
// outcome is unknown, and when the answer is an error.
func Final(p Payment) *Answer {
	a, err := answer(p)
	if err != nil || a.Status == Unknown {
		return nil
	}
	return &a
}

// ReusableFor reports whether a request for the payment n gets the existing payment p instead. Once
// a charge of p has begun, only the payer must match. Before that, p must not have expired, and
// amount, currency, provider and mode must match too. now is the database's time.
func (p Payment) ReusableFor(n Payment, now time.Time) bool {
	if p.UserID != n.UserID {
		return false
	}
	return !p.Status.Uncharged() || now.Before(p.ExpiresAt) && p.Amount == n.Amount && p.Currency == n.Currency && p.Provider == n.Provider && p.Mode == n.Mode
}

// Superseded ends a payment of which nothing was charged, since a new one for the same reference
// replaces it. It fails with ErrInProgress when p is being charged.
func Superseded(p Payment, _ time.Time) (*Change, error) {
	if !p.Status.Uncharged() {
		return nil, ErrInProgress
	}
	return ended(p, "another payment takes its place"), nil
}
