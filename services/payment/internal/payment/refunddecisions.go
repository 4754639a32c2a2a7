package payment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// errTakenOver is returned by a decision if another process has leased the refund, or it has ended.
var errTakenOver = errors.New("another process has the refund")

// owed returns the decision that inserts a refund for which no tickets must be claimed: a
// Compensation of all that was captured, or a refund whose tickets the ticket service has already
// claimed.
func owed(r Refund) Decide {
	return func(p Payment, _ time.Time) (*Change, error) {
		if p.Status != Confirmed && p.Status != Refunded {
			return nil, nil //nolint:nilnil // it was never CONFIRMED, so nothing is owed
		}
		n := r
		n.PaymentID, n.Provider, n.Status = p.ID, p.Provider, RefundPending
		if n.Cause == Compensation {
			n.Amount = p.Captured
		}
		c := p.withMoney(0, 0, 0, "refund due: "+r.Reason)
		c.NewRefund = &n
		return c, nil
	}
}

// begun records the ticket service's answer to BeginRefund. A refund by hand has already given back
// its money: the amount of its items is added to HandUsed, and the rest stays unused.
func begun(claim Claim) DecideRefund {
	return func(p Payment, r Refund, _ time.Time) (*RefundChange, error) {
		if r.Status != RefundRequested {
			return nil, nil //nolint:nilnil // the answer is recorded already
		}
		c := &RefundChange{Refund: r, NewItems: claim.Items}
		c.Refund.Excluded = claim.Excluded[:min(len(claim.Excluded), maxNamed)]
		sum := claim.MembershipAmount
		for _, item := range claim.Items {
			sum += item.Amount
		}
		switch {
		case r.Cause == ByHand:
			c.Refund.Status = RefundDone
			note := fmt.Sprintf("the refund by hand ends %d tickets", len(claim.Items))
			if claim.MembershipAmount > 0 {
				note = "the refund by hand ends the membership"
			}
			c.Payment = p.withMoney(0, 0, sum, note)
			return c.publishing(p), nil
		case claim.Refused:
			c.Refund.Status, c.Refund.Reason, c.NewItems = RefundRejected, claim.Reason, nil
		default:
			c.Refund.Status, c.Refund.Amount, c.Refund.Send = RefundPending, sum, sum
			note := "refund requested"
			if r.Cause == ByUser && r.Reason != "" { // an operator's reason is not for the payer
				note += ": " + r.Reason
			}
			c.Payment = p.withMoney(0, 0, 0, note)
		}
		return c, nil
	}
}

// whileRefundLeased calls decide if the refund is PENDING and has this lease, else it fails.
func whileRefundLeased(lease int64, decide DecideRefund) DecideRefund {
	return func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		if r.Status != RefundPending || r.Lease != lease {
			return nil, errTakenOver
		}
		return decide(p, r, now)
	}
}

// sending records, before the call, that a refund may be sent. It changes nothing if the provider
// may forget the key within inFlight, the longest time of a call: then it must be asked first.
func sending(lease int64, keyLife, inFlight time.Duration) DecideRefund {
	return whileRefundLeased(lease, func(_ Payment, r Refund, now time.Time) (*RefundChange, error) {
		switch {
		case r.Gen == 0:
			r.Gen, r.FirstSent = 1, now
		case !now.Add(inFlight).Before(r.FirstSent.Add(keyLife)):
			return nil, nil //nolint:nilnil // the key is too old
		}
		r.LastSent, r.DoubtAt = now, now
		return &RefundChange{Refund: r, Wait: Keep}, nil
	})
}

// spent records that the provider only repeats an error under the latest key. The key counts as
// forgotten, so that the provider is asked, and a new key is used only if there is no refund yet.
func spent(lease int64, keyLife time.Duration) DecideRefund {
	return whileRefundLeased(lease, func(_ Payment, r Refund, _ time.Time) (*RefundChange, error) {
		r.FirstSent = r.LastSent.Add(-keyLife)
		return &RefundChange{Refund: r, Wait: Keep}, nil
	})
}

// absent gives a refund that the provider does not know a new key, once no earlier call can take
// effect any more (inFlight after it). askedAt is a time before the provider was asked.
func absent(lease int64, askedAt time.Time, inFlight time.Duration) DecideRefund {
	return whileRefundLeased(lease, func(_ Payment, r Refund, now time.Time) (*RefundChange, error) {
		if end := r.LastSent.Add(inFlight); askedAt.Before(end) {
			return &RefundChange{Refund: r, Wait: end.Sub(now)}, nil
		}
		return &RefundChange{Refund: r.withNewKey(now)}, nil
	})
}

// withNewKey returns the refund with the next key, which no call has used.
func (r Refund) withNewKey(now time.Time) Refund {
	r.Gen++
	r.FirstSent, r.LastSent, r.DoubtAt = now, now, time.Time{}
	return r
}

// made records that the provider accepted or made a refund, or that it has failed since. It ignores
// leases: what the provider has done always counts.
func made(x ProviderRefund) DecideRefund {
	return func(p Payment, r Refund, _ time.Time) (*RefundChange, error) {
		c := &RefundChange{Refund: r, Wait: acceptedPoll}
		known := r.ProviderID == x.ID && x.ID != ""
		switch {
		case x.State == ProviderFailed:
			if !known || r.Status != RefundAccepted && r.Status != RefundDone {
				return nil, nil //nolint:nilnil // sent under an earlier key, or HELD already
			}
			c.Refund.Status, c.Refund.Reason = RefundHeld, reasonFailed
			c.Payment = p.withMoney(-r.Send, 0, 0, "a refund has failed at the provider")
			return c, nil
		case known && r.Status == RefundAccepted && x.State == ProviderDone:
			c.Refund.Status = RefundDone
			return c, nil
		case known || r.Status != RefundPending && r.Status != RefundHeld:
			return nil, nil //nolint:nilnil // known already
		}
		c.Refund.Status = RefundDone
		if x.State == ProviderAccepted {
			c.Refund.Status = RefundAccepted
		}
		c.Refund.ProviderID, c.Refund.DoubtAt, c.Refund.LastError = x.ID, time.Time{}, ""
		c.Payment = p.withMoney(r.Send, 0, 0, "refunded")
		if c.Payment.Status == Confirmed {
			c.Payment.Note = "refunded in part"
		}
		if p.Captured == 0 && r.Cause == Compensation { // a free payment has no Refunded amount to tell
			c.Payment.Status, c.Payment.Note = Refunded, "refunded"
		}
		return c.publishing(p), nil
	}
}

// reasonFailed is the reason of a refund that the provider first accepted, but failed to make.
const reasonFailed = "FAILED"

// tooEarly postpones the effect of a provider's refusal while an earlier call for the refund may
// still make it: the provider may not keep refusals under a key. earlier is the time of that call,
// or zero.
func tooEarly(lease int64, earlier time.Time, inFlight time.Duration) DecideRefund {
	return whileRefundLeased(lease, func(_ Payment, r Refund, now time.Time) (*RefundChange, error) {
		end := earlier.Add(inFlight)
		if earlier.IsZero() || now.After(end) {
			return nil, nil //nolint:nilnil // the refusal counts
		}
		r.DoubtAt = earlier
		return &RefundChange{Refund: r, Wait: end.Sub(now) + time.Second}, nil
	})
}

// refusedByProvider records that the provider has refused a refund. left is what it could still
// refund. If that is too little, unused money given back by hand counts for this refund.
func refusedByProvider(lease int64, refusal RefundAnswer, left int64) DecideRefund {
	return whileRefundLeased(lease, func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		if covered := min(r.Send, p.Hand-p.HandUsed, max(0, r.Send-left)); refusal.State == ProviderTooMuch && covered > 0 {
			c := &RefundChange{Refund: r.withNewKey(now)}
			c.Refund.Send -= covered
			c.Payment = p.withMoney(0, 0, covered, "a refund by hand counts for a refund of ours")
			return c, nil
		}
		note := "refund refused by the provider"
		if refusal.Code == reasonDisputed {
			note = "refund not sent: the payer disputes the charge"
		}
		r.DoubtAt, r.Reason = time.Time{}, refusal.Code // for operators: payers see the timeline's notes only
		if r.Cause.undone() && !r.Published {
			// The tickets become valid again, so money given back by hand no longer counts for it.
			c := &RefundChange{Refund: r, Payment: p.withMoney(0, 0, r.Send-r.Amount, note)}
			c.Refund.Status, c.Refund.AbortDue = RefundRefused, true
			return c, nil
		}
		r.Status = RefundHeld
		return &RefundChange{Refund: r, Payment: p.withMoney(0, 0, 0, "refund held for a person")}, nil
	})
}

// aborted records that the claim at the ticket service was released.
func aborted(p Payment, r Refund, _ time.Time) (*RefundChange, error) {
	if !r.AbortDue {
		return nil, nil //nolint:nilnil // recorded already
	}
	r.AbortDue = false
	note := "tickets are valid again"
	if p.Reference.Type == Membership {
		note = "the membership is active again"
	}
	return &RefundChange{Refund: r, Payment: p.withMoney(0, 0, 0, note)}, nil
}

// retried makes a HELD refund PENDING, to be sent again under a new key.
func retried(p Payment, r Refund, now time.Time) (*RefundChange, error) {
	if r.Status != RefundHeld {
		return nil, ErrNotHeld
	}
	r = r.withNewKey(now)
	r.Status, r.ProviderID = RefundPending, ""
	return &RefundChange{Refund: r, Payment: p.withMoney(0, 0, 0, "refund is tried again")}, nil
}

// resolved ends a HELD refund that a person has paid. With byHand it was paid at the provider, and
// uses money given back by hand that no refund uses yet. Otherwise it was paid elsewhere.
func resolved(byHand bool, note string) DecideRefund {
	return func(p Payment, r Refund, _ time.Time) (*RefundChange, error) {
		var used int64
		switch {
		case r.Status != RefundHeld:
			return nil, ErrNotHeld
		case byHand && p.Hand-p.HandUsed < r.Send:
			return nil, ErrNotPaidByHand
		case byHand:
			used = r.Send
		}
		c := &RefundChange{Refund: r, Payment: p.withMoney(0, 0, used, "a refund was paid by a person")}
		c.Refund.Status, c.Refund.Reason, c.Refund.Send = RefundResolved, note, r.Send-used
		return c.publishing(p), nil
	}
}

// ByHandRefunds are refunds that a person made at the provider, as one look-up returned them.
type ByHandRefunds struct {
	Refunds []ProviderRefund
	// Whole says that nothing is left of the charge at the provider.
	Whole bool
}

// Refund returns the new refund that records x, one of the refunds made by hand.
func (b ByHandRefunds) Refund(p Payment, x ProviderRefund) Refund {
	reason := manualRefundReason
	if x.Lost {
		reason = lostDisputeReason
	}
	return Refund{
		ID: uuid.Must(uuid.NewV7()), PaymentID: p.ID, Provider: p.Provider, Cause: ByHand, Request: x.ID, Reason: reason,
		Status: RefundRequested, Amount: x.Amount, ProviderID: x.ID, Scope: RefundScope{Whole: b.Whole},
	}
}

// The reasons and the timeline's notes of a refund that a person made at the provider, and of money
// that the bank took after a lost dispute.
const (
	manualRefundReason = "REFUNDED_AT_PROVIDER"
	lostDisputeReason  = "DISPUTE_LOST"
	manualRefundNote   = "refunded by hand at the provider"
	lostDisputeNote    = "taken by the bank: the dispute is lost"
)

// Adopted returns the payment's change when refunds by hand of this total amount are recorded.
func (b ByHandRefunds) Adopted(p Payment, amount int64) *Change {
	note := manualRefundNote
	if slices.ContainsFunc(b.Refunds, func(x ProviderRefund) bool { return x.Lost }) {
		note = lostDisputeNote
	}
	return p.withMoney(amount, amount, 0, note)
}
