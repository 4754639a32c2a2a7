package payment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/errs"
)

// errTakenOver is returned by a decision if another process has leased the refund, or it has ended.
var errTakenOver = errors.New("another process has the refund")

// owed returns the decision that inserts a refund for which no tickets must be claimed: a
// Compensation of all that was captured, or a refund whose tickets the ticket service has already
// claimed. It fails with ErrNotOwed unless what the ticket service says of the payment (at) proves it.
func owed(r Refund, at Settled) DecideRequest {
	return func(p Payment, before EarlierRefunds, _ time.Time) (*Change, error) {
		if p.Status != Confirmed && p.Status != Refunded {
			return nil, nil //nolint:nilnil // it was never CONFIRMED, so nothing is owed
		}
		known := func(o Refund) bool { return o.Cause == r.Cause && o.Request == r.Request }
		if i := slices.IndexFunc(before.Holding, known); i >= 0 && (r.Cause == Compensation || before.Holding[i].Amount == r.Amount) {
			return nil, nil //nolint:nilnil // the event has come again
		} else if i >= 0 || !at.proves(r, p, before.Holding) {
			return nil, fmt.Errorf("%s of %d: %w", r.Cause, r.Amount, ErrNotOwed)
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
// its money: the amount of its items is added to HandUsed, less what assigned has reserved there, and
// the rest stays unused.
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
		reserved := r.Scope.HandLimit
		switch {
		case claim.Refused && (r.Cause != ByHand || reserved > 0):
			c.Refund.Status, c.Refund.Reason, c.Refund.Amount, c.NewItems = RefundRejected, claim.Reason, claim.PresentAmount, nil
			if reserved > 0 {
				c.Payment = p.withMoney(0, 0, -reserved, "")
			}
		case r.Cause == ByHand:
			c.Refund.Status = RefundDone
			note := fmt.Sprintf("the refund by hand ends %d tickets", len(claim.Items))
			switch {
			case reserved > 0:
				note = fmt.Sprintf("a refund by hand was for %d tickets", len(claim.Items))
			case claim.MembershipAmount > 0:
				note = "the refund by hand ends the membership"
			}
			c.Payment = p.withMoney(0, 0, sum-reserved, note)
			return c.publishing(p), nil
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
		case r.KeyNumber == 0:
			r.KeyNumber, r.FirstSent = 1, now
		case !now.Add(inFlight).Before(r.FirstSent.Add(keyLife)):
			return nil, nil //nolint:nilnil // the key is too old
		}
		r.LastSent, r.DoubtAt = now, now
		return &RefundChange{Refund: r, Wait: Keep}, nil
	})
}

// spent records that the provider only repeats an error under the latest key. The key counts as
// forgotten, so that the provider is asked, and a new key is used only if there is no refund yet.
func spent(lease int64, keyLife time.Duration, kept KeptError) DecideRefund {
	return whileRefundLeased(lease, func(_ Payment, r Refund, now time.Time) (*RefundChange, error) {
		r.FirstSent, r.KeptCode = r.LastSent.Add(-keyLife), kept.Code
		if r.RefusedAt.IsZero() {
			r.RefusedAt = now
		}
		if !kept.Trouble {
			r.RefusedKeys++
		}
		return &RefundChange{Refund: r, Wait: Keep}, nil
	})
}

// A refund that the provider refuses under maxRefusedKeys keys, or for maxRefused (also while it has
// trouble), is refused for good, whatever the provider's code.
const (
	maxRefusedKeys = 3
	maxRefused     = 2 * time.Hour
)

// refusedLongEnough counts the time until the latest call: one error, long ago, is not enough.
func (r Refund) refusedLongEnough() bool {
	return r.RefusedKeys >= maxRefusedKeys || !r.RefusedAt.IsZero() && r.LastSent.Sub(r.RefusedAt) >= maxRefused
}

// absent gives a refund that the provider does not know a new key, once no earlier call can take
// effect any more (inFlight after it). If the provider has refused it long enough, it gets none.
// askedAt is a time before the provider was asked, report the answer.
func absent(lease int64, askedAt time.Time, inFlight time.Duration, report RefundReport) DecideRefund {
	return whileRefundLeased(lease, func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		if end := r.LastSent.Add(inFlight); askedAt.Before(end) {
			return &RefundChange{Refund: r, Wait: end.Sub(now)}, nil
		}
		if r.refusedLongEnough() {
			return refusedByProvider(lease, RefundAnswer{State: ProviderRefused, Code: r.KeptCode}, report)(p, r, now)
		}
		return &RefundChange{Refund: r.withNewKey(now)}, nil
	})
}

// withNewKey returns the refund with the next key, which no call has used.
func (r Refund) withNewKey(now time.Time) Refund {
	r.KeyNumber++
	r.FirstSent, r.LastSent, r.DoubtAt = now, now, time.Time{}
	return r
}

// withoutRefusals returns the refund as if the provider had not refused it yet.
func (r Refund) withoutRefusals() Refund {
	r.RefusedKeys, r.RefusedAt, r.KeptCode = 0, time.Time{}, ""
	return r
}

// made records that the provider accepted or made a refund, or that it has failed since. It ignores
// leases: what the provider has done always counts.
func made(x ProviderRefund) DecideRefund {
	return func(p Payment, r Refund, _ time.Time) (*RefundChange, error) {
		c := &RefundChange{Refund: r, Wait: acceptedPoll}
		c.Refund.PendingReason = x.PendingReason
		known := r.ProviderID == x.ID && x.ID != ""
		switch {
		case x.ID == "" && r.Send > 0:
			return nil, nil //nolint:nilnil // the money by hand that had covered all of it has failed: it must be sent
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
		case known && r.Status == RefundAccepted && r.PendingReason != x.PendingReason:
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

// refusedByProvider records that the provider has refused a refund; report is what it knows of the
// order. If it could refund too little, unused money given back by hand counts for this refund.
func refusedByProvider(lease int64, refusal RefundAnswer, report RefundReport) DecideRefund {
	return whileRefundLeased(lease, func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		left := report.RefundableAmount()
		tooMuch := refusal.State == ProviderTooMuch || !report.Disputed && left < r.Send // what a lost dispute took counts as given back by hand
		if covered := min(r.Send, p.RefundedByHand-p.ByHandCounted, max(0, r.Send-left)); tooMuch && covered > 0 {
			return coveredByHand(p, r, covered, now), nil
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
		return &RefundChange{Refund: r, Payment: p.withMoney(0, 0, 0, heldNote)}, nil
	})
}

// heldNote is the timeline's note of a refund that becomes HELD.
const heldNote = "refund held for a person"

// reasonOperator is the reason of a refund that an operator holds.
const reasonOperator = "OPERATOR"

// heldByOperator makes a PENDING refund HELD. A call for it may still take effect: DoubtAt stays, and
// what the provider has made still counts (see made).
func heldByOperator(p Payment, r Refund, _ time.Time) (*RefundChange, error) {
	if r.Status != RefundPending {
		return nil, ErrNotPending
	}
	r.Status, r.Reason = RefundHeld, reasonOperator
	return &RefundChange{Refund: r, Payment: p.withMoney(0, 0, 0, heldNote)}, nil
}

// notMade records that no call has made a HELD refund, as the provider was asked at askedAt. It fails
// while an earlier call may still take effect (inFlight after it).
func notMade(askedAt time.Time, inFlight time.Duration) DecideRefund {
	return func(_ Payment, r Refund, now time.Time) (*RefundChange, error) {
		if r.Status != RefundHeld {
			return nil, ErrNotHeld
		}
		if end := r.LastSent.Add(inFlight); askedAt.Before(end) {
			return nil, errs.ErrUnavailable.WithRetry(end.Sub(now))
		}
		r.DoubtAt = time.Time{}
		return &RefundChange{Refund: r, Wait: Keep}, nil
	}
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

// retried makes a HELD refund PENDING, to be sent again under a new key. If it was held since money
// by hand was unassigned, that money becomes goodwill: if shown is set, only if it is this amount. While
// the ticket service has still to say which tickets other money has ended, none does (see unlessByHand).
func retried(shown *int64) DecideRefund {
	return func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		if r.Status != RefundHeld {
			return nil, ErrNotHeld
		}
		c := &RefundChange{Refund: r.sentAgain(now), Payment: p.withMoney(0, 0, 0, "refund is tried again")}
		if r.Reason != reasonByHand {
			return c, nil
		}
		if shown != nil && *shown != p.Unassigned() {
			return nil, nothingByHand(p.Unassigned())
		}
		if !p.ByHandRequested {
			c.Payment.AddGoodwill = p.Unassigned()
		}
		return c, nil
	}
}

// sentAgain returns the HELD refund as it is sent again: under a new key, unless a call with the latest
// one may have made it.
func (r Refund) sentAgain(now time.Time) Refund {
	r = r.withoutRefusals()
	if r.DoubtAt.IsZero() {
		r = r.withNewKey(now)
	}
	r.Status, r.ProviderID = RefundPending, ""
	if r.Reason == reasonByHand {
		r.Reason = ""
	}
	return r
}

// resolved ends a HELD refund that a person has paid, and that no call can have made (see notMade). With
// byHand it was paid at the provider, and uses money given back by hand that no refund uses yet; if that is only a part of it (see
// paidByHand), the rest is sent. Otherwise it was paid elsewhere.
func resolved(byHand bool, note string) DecideRefund {
	return func(p Payment, r Refund, now time.Time) (*RefundChange, error) {
		if r.Status != RefundHeld {
			return nil, ErrNotHeld
		}
		if !r.DoubtAt.IsZero() { // held again since the provider was asked
			return nil, errs.ErrUnavailable
		}
		var used int64
		if byHand {
			if used = paidByHand(p, r); used == 0 {
				return nil, ErrNotPaidByHand
			}
		}
		c := &RefundChange{Refund: r, Payment: p.withMoney(0, 0, used, "a refund was paid by a person")}
		if byHand && used < r.Send {
			c.Refund = r.sentAgain(now)
			c.Refund.Send -= used
			return c, nil
		}
		c.Refund.Status, c.Refund.Reason, c.Refund.Send = RefundResolved, note, r.Send-used
		return c.publishing(p), nil
	}
}
