package payout

import (
	"context"
	"time"

	"urr.guru/pkg/errs"
)

// Refusals of operators' acts.
var (
	ErrNotFound     = errs.ErrAllocationNotFound
	ErrNotRetryable = errs.ErrRewardNotRetryable
	ErrNotHeld      = errs.ErrRewardNotHeld
)

// CallRecord is a call of an allocation, for operators.
type CallRecord struct {
	Version         int64
	Action          Action
	SentAt, EndedAt time.Time // EndedAt is zero while it runs, or when its worker died
	Outcome         Outcome
	Message         string
}

// Filter selects allocations: those of a member, of one campaign and status or of all, or those in
// a status, of one campaign or of all. They are listed newest first; Before is the cursor, an
// allocation's id, 0 for the first page.
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

// Reader reads allocations for members and operators.
type Reader interface {
	List(ctx context.Context, f Filter) ([]Allocation, error)
	// Get fails with ErrNotFound.
	Get(ctx context.Context, id int64) (Allocation, []CallRecord, error)
	Summary(ctx context.Context, eventID string) ([]Totals, error)
}

// Operator changes allocations as operators ask for it.
type Operator interface {
	// Retry makes failed allocations due under their keys; the provider is asked first. It returns
	// how many were failed.
	Retry(ctx context.Context, ids []int64) (int, error)
	// RetryAll is Retry for all failed allocations of a campaign.
	RetryAll(ctx context.Context, eventID string) (int, error)
	// Cancel cancels allocations as soon as it is certain that they are unpaid; restock gives their
	// prizes back then.
	Cancel(ctx context.Context, ids []int64, restock bool) error
	// CancelCampaign marks a campaign; its allocations follow in chunks.
	CancelCampaign(ctx context.Context, eventID string, restock bool) error
	// Resolve ends an allocation that is held, by what an operator has found out; ErrNotHeld.
	Resolve(ctx context.Context, id int64, paid bool, transactionID string) error
}

// Pauser stops the payouts of a kind and continues them.
type Pauser interface {
	Pause(ctx context.Context, k Kind) error
	Resume(ctx context.Context, k Kind) error
}

// manual is the transaction of a payment that an operator has found without naming it.
const manual = "MANUAL"

// Resolve returns an allocation that is held after an operator has found out what became of it. An
// unpaid one is cancelled if that was asked for; otherwise it has failed, and may be retried.
func Resolve(a Allocation, paid bool, transactionID string, now time.Time) Allocation {
	a.NextRetryAt, a.HeldAt, a.UnknownSince, a.AskFirst, a.Code, a.Message = time.Time{}, time.Time{}, time.Time{}, false, "", ""
	switch {
	case paid:
		if transactionID == "" {
			transactionID = manual
		}
		a.Status, a.TransactionID, a.ProcessedAt = Success, transactionID, now
	case a.Cancelling:
		a.Status = Cancelled
	default:
		a.Status, a.Code = Failed, CodeNotPaid
	}
	return a
}
