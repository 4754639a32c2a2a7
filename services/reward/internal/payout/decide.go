package payout

import (
	"math"
	"math/rand/v2"
	"time"
)

// CallOutcome says how a call to a provider ended.
type CallOutcome string

// Outcomes. Only Paid, and Voided after a lookup that found nothing, are final by themselves.
const (
	Paid           CallOutcome = "PAID"
	Refused        CallOutcome = "REFUSED"          // not paid; another attempt may succeed
	RefusedForGood CallOutcome = "REFUSED_FOR_GOOD" // not paid; no attempt will succeed
	Unknown        CallOutcome = "UNKNOWN"          // it may have paid, now or later
	Busy           CallOutcome = "BUSY"             // overloaded; it may still have paid
	NotSent        CallOutcome = "NOT_SENT"         // nothing reached the provider
	Absent         CallOutcome = "ABSENT"           // looked up: nothing is paid yet
	Voided         CallOutcome = "VOIDED"           // voided: nothing is paid, nor ever will be
)

// CallResult is how a call to a provider ended.
type CallResult struct {
	Outcome       CallOutcome
	TransactionID string // the provider's, when paid
	Message       string // for operators: why it is not paid
	// Asked is the time at which a look-up was sent, by the monotonic clock of this process. Age is
	// the time from then to the decision.
	Asked time.Time
	Age   time.Duration
}

// EndedCall is a call to a provider that has ended, with the claim under which a worker made it.
type EndedCall struct {
	ID, Version int64
	Action      Action
	Result      CallResult
}

// Decide returns the allocation after a call. a is its present state, which may have changed since
// the claim; now is the database's time. ok is false when the result is ignored: a worker that has
// lost its lease can only report that the provider has paid.
func Decide(a Allocation, c EndedCall, now time.Time, p Policy) (after Allocation, ok bool) {
	after = a
	after.NextRetryAt, after.HeldAt, after.Code, after.Message = time.Time{}, time.Time{}, "", c.Result.Message
	if c.Result.Outcome == Paid {
		return applyPayment(a, after, c, now)
	}
	if a.Status != Processing || a.Version != c.Version {
		return a, false
	}
	after.Status = Failed
	switch c.Result.Outcome {
	case NotSent:
		after.Code = CodeUnavailable
		after.retryIn(p.backoff(0), now)
	case Busy:
		after.Code = CodeUnavailable
		after.markUnknown(c.Action, a.LastCallAt)
		after.retryIn(p.backoff(0), now)
	case Refused, RefusedForGood:
		after.applyRefusal(c.Result.Outcome, now, p)
	case Absent, Voided:
		after.applyAbsence(c.Result, now, p)
	case Unknown, Paid:
		after.Code = CodeUnknown
		after.markUnknown(c.Action, a.LastCallAt)
		if c.Action == Pay {
			after.RetryCount++
		} else {
			after.AskFirst = true // the key may be void: nothing is sent under it before an answer
		}
		after.retryIn(p.backoff(after.RetryCount-1), now)
	}
	unanswered := after.AskFirst && !after.LastCallAt.IsZero()
	after.cancelOrHold(unanswered, now, p)
	return after, true
}

// applyPayment records a payment, whatever the version and the status: what was paid stays paid.
func applyPayment(a, after Allocation, c EndedCall, now time.Time) (Allocation, bool) {
	if a.Status == Success {
		return a, false
	}
	after.Status, after.TransactionID, after.ProcessedAt, after.Message = Success, c.Result.TransactionID, now, ""
	after.UnknownSince, after.FailingSince, after.AskFirst = time.Time{}, time.Time{}, false
	if a.Status == Cancelled || a.Status == Failed && a.NextRetryAt.IsZero() {
		after.Code = CodePaidAfterwards
	}
	return after, true
}

// applyRefusal counts a refused attempt. A refusal says nothing about earlier calls: while the
// outcome of one is unknown, the provider is asked before the allocation ends.
func (a *Allocation) applyRefusal(o CallOutcome, now time.Time, p Policy) {
	a.Code = CodeRefused
	a.RetryCount++
	if o == RefusedForGood {
		a.RetryCount = max(a.RetryCount, p.MaxAttempts)
	}
	if a.RetryCount >= p.MaxAttempts && a.UnknownSince.IsZero() {
		return // final
	}
	a.retryIn(p.backoff(a.RetryCount-1), now)
}

// applyAbsence makes the allocation unpaid if the answer is final: the key is void, or every call
// is so old that it would have paid by now. No answer is final once the provider may have forgotten
// the oldest call.
func (a *Allocation) applyAbsence(r CallResult, now time.Time, p Policy) {
	if r.Outcome == Voided {
		a.VoidedAt = now
		a.Resends++
	}
	// LastCallAt is the time of the claim; the call may have begun a CallTimeout later.
	settled := a.LastCallAt.Add(p.CallTimeout + p.SettleTime)
	if a.providerMayHaveForgotten(now, p) {
		return
	}
	// The answer describes the time at which the question was sent, r.Age ago.
	if r.Outcome != Voided && now.Add(-r.Age).Before(settled) {
		a.Code = CodeUnknown
		a.retryIn(max(0, settled.Sub(now)), now)
		return
	}
	a.UnknownSince, a.AskFirst = time.Time{}, false
	if r.Outcome == Voided {
		a.LastCallAt = time.Time{} // no call is left that may pay: a retry need not ask
	}
	if a.RetryCount >= p.MaxAttempts {
		a.Code = CodeNotPaid
		return // final
	}
	a.retryIn(0, now)
}

// cancelOrHold cancels an allocation that is to be cancelled and is certainly unpaid. It holds an
// allocation for an operator if the provider cannot say any more whether it is paid, or if its
// calls fail for too long without an attempt that counts.
func (a *Allocation) cancelOrHold(unanswered bool, now time.Time, p Policy) {
	if a.FailingSince.IsZero() {
		a.FailingSince = now
	}
	switch {
	case a.providerMayHaveForgotten(now, p):
		a.HeldAt, a.NextRetryAt, a.Code = now, time.Time{}, CodeUnknownTooLong
	case a.Cancelling && a.UnknownSince.IsZero() && !unanswered:
		a.Status, a.NextRetryAt, a.Code, a.Message = Cancelled, time.Time{}, "", ""
	case a.UnknownSince.IsZero() && !a.NextRetryAt.IsZero() && now.Sub(a.FailingSince) >= p.HoldAfter:
		a.HeldAt, a.NextRetryAt, a.Code = now, time.Time{}, CodeFailingTooLong
	}
	if a.NextRetryAt.IsZero() {
		a.FailingSince = time.Time{}
	}
}

func (a *Allocation) providerMayHaveForgotten(now time.Time, p Policy) bool {
	return !a.UnknownSince.IsZero() && now.Sub(a.UnknownSince) >= p.LookupRetention
}

// markUnknown records that a payment may be under way since the time of the call.
func (a *Allocation) markUnknown(action Action, sent time.Time) {
	if action == Pay && a.UnknownSince.IsZero() {
		a.UnknownSince = sent
	}
}

func (a *Allocation) retryIn(wait time.Duration, now time.Time) { a.NextRetryAt = now.Add(wait) }

// backoff returns the pause after this number of failures, up to an eighth longer or shorter.
func (p Policy) backoff(failures int) time.Duration {
	wait := p.RetryMax
	if factor := math.Exp2(float64(max(0, failures))); float64(p.RetryMin)*factor < float64(p.RetryMax) {
		wait = time.Duration(float64(p.RetryMin) * factor)
	}
	return wait - wait/8 + rand.N(wait/4+1) //nolint:gosec // jitter
}
