package payment

import (
	"context"
	"errors"
)

// Urgency orders calls to a provider that takes only so many in a second: the most urgent goes first.
type Urgency int

// The urgencies, the most urgent first.
const (
	ForCharge     Urgency = iota // a charge, or a look-up that decides about one
	ForRelease                   // to cancel an authorisation that was refused: the buyer's money is blocked
	ForReturn                    // to look at a page whose buyer is back
	ForHint                      // to look at what a webhook was about
	ForOpening                   // to open a page
	ForRefund                    // to refund what a person asked for or is owed
	ForBulkRefund                // to refund a cancelled event
	ForPoll                      // to look at a page, or to close one, without a sign of its buyer
	ForComparison                // to compare the accounts
)

func (u Urgency) String() string {
	return [...]string{"charge", "release", "return", "hint", "opening", "refund", "bulk_refund", "poll", "comparison"}[u]
}

// ErrNoTurn means that a call was not sent, since more urgent ones have used up what the provider takes.
// It comes with ErrNotSent.
var ErrNoTurn = errors.New("the provider's limit of calls is used up")

// ErrThrottled means that the provider has refused a call because there were too many.
var ErrThrottled = errors.New("the provider has refused a call: too many")

type urgencyKey struct{}

// WithUrgency returns a context for calls of this urgency.
func WithUrgency(ctx context.Context, u Urgency) context.Context {
	return context.WithValue(ctx, urgencyKey{}, u)
}

// UrgencyOf returns the urgency of calls with the context; by default ForComparison.
func UrgencyOf(ctx context.Context) Urgency {
	if u, ok := ctx.Value(urgencyKey{}).(Urgency); ok {
		return u
	}
	return ForComparison
}

// urgency returns how urgent the sweeper's next call for the payment is.
func (p Payment) urgency() Urgency {
	switch {
	case p.Status.Unsettled() || p.Status == Open && p.PaymentKey != "":
		return ForCharge
	case p.Status == Open && p.Returned:
		return ForReturn
	case p.CancelDue && p.Status == Declined:
		return ForRelease
	case p.Hinted:
		return ForHint
	default:
		return ForPoll
	}
}

// urgency returns how urgent a refund of this cause is.
func (c Cause) urgency() Urgency {
	if c == EventCancelled {
		return ForBulkRefund
	}
	return ForRefund
}
