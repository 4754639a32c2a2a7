// Package payout pays rewards: it calls providers, and decides what an answer means for an allocation.
// An allocation is paid at most once: SUCCESS means that the provider's ledger has it once, CANCELLED
// that the ledger will never have it.
//
// A call of unknown outcome is repeated under the same key while the provider certainly recognises the
// key. After that the provider is asked, and only a final answer permits another call.
package payout

import (
	"strconv"
	"time"
)

// Status is the state of an allocation.
type Status string

// The statuses. FAILED with a time of the next attempt is retried; without one it is final or held.
const (
	Pending    Status = "PENDING"
	Processing Status = "PROCESSING"
	Success    Status = "SUCCESS"
	Failed     Status = "FAILED"
	Cancelled  Status = "CANCELLED"
)

// Statuses returns all statuses of allocations.
func Statuses() []Status { return []Status{Pending, Processing, Success, Failed, Cancelled} }

// Kind is the kind of a reward. Each kind has a provider of its own.
type Kind string

// Kinds of rewards.
const (
	Point  Kind = "POINT"
	Coupon Kind = "COUPON"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Point, Coupon} }

// Action is what a worker does with an allocation that it has claimed.
type Action string

// The actions. The statement that claims an allocation chooses one, by the database's clock.
const (
	Pay Action = "PAY" // send the payment
	Ask Action = "ASK" // ask whether an earlier call has paid
)

// The codes of an allocation's last error.
const (
	CodeRefused        = "REFUSED"          // the provider refused it
	CodeUnknown        = "UNKNOWN"          // the outcome of a call is unknown
	CodeUnavailable    = "UNAVAILABLE"      // nothing was sent, or the provider is overloaded
	CodeNotPaid        = "NOT_PAID"         // all attempts failed, and the provider has paid nothing
	CodeUnknownTooLong = "UNKNOWN_TOO_LONG" // the provider may have forgotten the oldest call
	CodeFailingTooLong = "FAILING_TOO_LONG" // for too long, no call got an answer that counts
	CodeWorkersDied    = "WORKERS_DIED"     // several workers died while they paid it
	CodePaidAfterwards = "PAID_AFTERWARDS"  // paid after it was cancelled or given up
)

// Allocation is one reward of a member. Zero times are absent.
type Allocation struct {
	ID                int64
	EventID, MemberID string
	Kind              Kind
	Value             int64
	// Reason is why it was earned, such as DRAW.
	Reason         string
	CreatedAt      time.Time
	Status         Status
	IdempotencyKey string
	// Resends is how many keys of this allocation were voided.
	Resends       int
	TransactionID string
	ProcessedAt   time.Time
	RetryCount    int
	NextRetryAt   time.Time
	Version       int64
	// UnknownSince is the time of the oldest call whose outcome is unknown. LastCallAt is the time of
	// the newest call that may have paid.
	UnknownSince, LastCallAt time.Time
	// FailingSince is the time of the first failure, while the allocation is tried again.
	FailingSince time.Time
	// AskFirst means that the provider is asked before anything is sent again.
	AskFirst bool
	// Cancelling means that an operator has cancelled the allocation or its campaign.
	Cancelling       bool
	VoidedAt, HeldAt time.Time
	Code, Message    string
}

// KeyToSend is the idempotency key of the next call. A voided key is never paid, so each void is
// followed by a new key.
func (a *Allocation) KeyToSend() string {
	if a.Resends == 0 {
		return a.IdempotencyKey
	}
	return a.IdempotencyKey + "-R" + strconv.Itoa(a.Resends)
}

// ClaimedAllocation is an allocation that a worker holds until its lease ends.
type ClaimedAllocation struct {
	Allocation

	Action Action
}

// Policy holds the times and limits of the payouts to one provider.
type Policy struct {
	// CallTimeout is the time limit of a call to the provider. Lease is the longer life of a claim.
	CallTimeout, Lease time.Duration
	// MaxAttempts is the number of calls that may fail before the allocation is given up.
	MaxAttempts int
	// RetryMin is the pause after the first failure; it doubles up to RetryMax.
	RetryMin, RetryMax time.Duration
	// MaxRecoveries is the number of workers that may die while they pay the same allocation.
	MaxRecoveries int
	// SettleTime is the longest time between the start of a call and its payment: a payment that is
	// absent after this time will never come.
	SettleTime time.Duration
	// KeyRetention is how long the provider recognises a repeated key. LookupRetention is how long it
	// can answer what a call has paid.
	KeyRetention, LookupRetention time.Duration
	// HoldAfter is how long calls may fail for an allocation that is certainly unpaid.
	HoldAfter time.Duration
}

// ResendWithin is how old the oldest call of unknown outcome may be for another call under its key:
// that call may arrive a whole SettleTime later, and the provider must still know the key then.
func (p Policy) ResendWithin() time.Duration { return p.KeyRetention - p.CallTimeout - p.SettleTime }
