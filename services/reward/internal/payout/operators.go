package payout

import (
	"cmp"
	"context"
	"time"

	"urr.guru/pkg/errs"
)

// Errors with which an operator's request is refused.
var (
	ErrNotFound       = errs.ErrAllocationNotFound
	ErrNotRetryable   = errs.ErrRewardNotRetryable
	ErrNotHeld        = errs.ErrRewardNotHeld
	ErrNotCancellable = errs.ErrRewardNotCancellable
)

// CallRecord is a past call to the provider for an allocation, as operators see it.
type CallRecord struct {
	Version         int64
	Action          Action
	SentAt, EndedAt time.Time // EndedAt is zero while the call runs, or if its worker died
	Outcome         CallOutcome
	Message         string
}

// Filter selects the allocations that match all fields that are set. They are listed newest first;
// Before is the cursor: the last id of the page before, 0 for the first page.
type Filter struct {
	MemberID, EventID string
	Status            Status
	Before            int64
	Limit             int
}

// Totals counts the allocations of a campaign in one status.
type Totals struct {
	Status                             Status
	Allocations, Points, Held, Unknown int64
}

// AllocationReader reads allocations for members and operators.
type AllocationReader interface {
	List(ctx context.Context, f Filter) ([]Allocation, error)
	// Get returns an allocation and the calls to its provider, or ErrNotFound.
	Get(ctx context.Context, id int64) (Allocation, []CallRecord, error)
	Summary(ctx context.Context, eventID string) ([]Totals, error)
}

// Operator changes allocations as operators ask for it.
type Operator interface {
	// Retry makes failed allocations due again under the same keys, and returns their number. The
	// provider is asked whether it has paid before a payment is sent.
	Retry(ctx context.Context, ids []int64) (int, error)
	// RetryCampaign marks a campaign for a retry; RetryMarked then retries its failed allocations.
	RetryCampaign(ctx context.Context, eventID string) error
	// Cancel cancels allocations once it is certain that they are unpaid; restock then returns their
	// prizes to the stock.
	Cancel(ctx context.Context, ids []int64, restock bool) error
	// CancelCampaign marks a campaign as cancelled; CancelMarked cancels its allocations.
	CancelCampaign(ctx context.Context, eventID string, restock bool) error
	// Resolve records whether a held allocation is paid, which an operator has found out. It fails
	// with ErrNotHeld if the allocation is not held.
	Resolve(ctx context.Context, id int64, paid bool, transactionID string) error
}

// Pauser stops the payouts of a kind and continues them.
type Pauser interface {
	Pause(ctx context.Context, k Kind) error
	Resume(ctx context.Context, k Kind) error
}

// manualTransaction is the transaction id of a payment that an operator reports without its id.
const manualTransaction = "MANUAL"

// Resolve returns a held allocation after an operator has found out whether it is paid. An unpaid one
// is cancelled if that was requested; otherwise it has failed, and may be retried.
func Resolve(a Allocation, paid bool, transactionID string, now time.Time) Allocation {
	a.NextRetryAt, a.HeldAt, a.UnknownSince, a.FailingSince = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	a.AskFirst, a.Code, a.Message = false, "", ""
	switch {
	case paid:
		a.Status, a.TransactionID, a.ProcessedAt = Success, cmp.Or(transactionID, manualTransaction), now
	case a.Cancelling:
		a.Status = Cancelled
	default:
		a.Status, a.Code = Failed, CodeNotPaid
	}
	return a
}
