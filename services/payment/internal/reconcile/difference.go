// Package reconcile compares the account of a payment provider with the payments, in both directions.
// Compare finds the differences of one order. Run applies it to all that a provider lists of a day and
// to all that was captured or refunded here on that day, and looks at an order a second time, at
// both sides, before it records a difference.
package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// The errors of the operators' decisions.
var (
	ErrNotFound = errs.ErrDifferenceNotFound
	ErrNotOpen  = errs.ErrDifferenceNotOpen
)

// Kind says what differs.
type Kind string

// The kinds of differences. "Here" are the payments, "there" is the provider.
const (
	// CaptureUnknown: captured there for an order that is named as ours are, and is no payment here.
	CaptureUnknown Kind = "CAPTURE_UNKNOWN"
	// CaptureOnlyThere: captured there, and the payment is not paid.
	CaptureOnlyThere Kind = "CAPTURE_ONLY_THERE"
	// CaptureOnlyHere: captured here, and the provider has no capture of the order.
	CaptureOnlyHere Kind = "CAPTURE_ONLY_HERE"
	// CaptureTwice: captured there, beside the capture that is known here.
	CaptureTwice Kind = "CAPTURE_TWICE"
	// CaptureAmount: another amount or currency was captured.
	CaptureAmount Kind = "CAPTURE_AMOUNT"
	// RefundUnknown: a refund there that no refund here has, with our id or without one.
	RefundUnknown Kind = "REFUND_UNKNOWN"
	// RefundTwice: a refund there with the id of one here that was made by another refund there.
	RefundTwice Kind = "REFUND_TWICE"
	// RefundState: given there and not here, or given here and failed there.
	RefundState Kind = "REFUND_STATE"
	// RefundOnlyHere: given here, and the provider has no such refund.
	RefundOnlyHere Kind = "REFUND_ONLY_HERE"
	// RefundAmount: another amount was refunded.
	RefundAmount Kind = "REFUND_AMOUNT"
	// RefundSum: each refund agrees, but the amount that the payment has as refunded is not their sum.
	RefundSum Kind = "REFUND_SUM"
)

// Kinds are all kinds.
var Kinds = []Kind{ //nolint:gochecknoglobals // a constant
	CaptureUnknown, CaptureOnlyThere, CaptureOnlyHere, CaptureTwice, CaptureAmount,
	RefundUnknown, RefundTwice, RefundState, RefundOnlyHere, RefundAmount, RefundSum,
}

// Status is the state of a stored difference.
//
//	WATCHED → OPEN | CLOSED   what still moves is not counted; it is looked at again by the next run
//	OPEN → CLOSED             a run no longer finds it, or an operator closes it
//	CLOSED → OPEN | WATCHED   found again; one that an operator closed only with other values
type Status string

// The statuses.
const (
	Watched Status = "WATCHED"
	Open    Status = "OPEN"
	Closed  Status = "CLOSED"
)

// MovesFor is how long a difference may be WATCHED: a run that is a day later counts it.
const MovesFor = 20 * time.Hour

// Difference is one between the two sides. Provider, Kind, OrderID and EntryID identify it.
type Difference struct {
	Kind     Kind
	Provider string
	OrderID  string
	// EntryID is the provider's id of the charge or refund, else ours; empty: it is about the order.
	EntryID string
	// PaymentID is zero where there is no payment.
	PaymentID uuid.UUID
	// Ours and Theirs say what either side has.
	Ours, Theirs string
	// Amount and Currency are what the provider has captured or refunded; 0 where it has nothing.
	Amount   int64
	Currency string
	// Moves says that the payment or refund is still being settled here.
	Moves bool
}

// String returns the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s provider=%s order=%s entry=%q here=%q there=%q", d.Kind, d.Provider, d.OrderID, d.EntryID, d.Ours, d.Theirs)
}

// Stored is a difference with what is known of it.
type Stored struct {
	Difference

	ID     uuid.UUID
	Status Status
	// Day is the one of which it was found first.
	Day                           time.Time
	FirstSeen, LastSeen, ClosedAt time.Time
	// ClosedBy is the operator who closed it, with Note; empty: a run that no longer found it.
	ClosedBy, Note string
}

// Desk is what operators read and decide.
type Desk interface {
	// ListDifferences returns up to limit differences in a status with smaller ids than before (zero:
	// all), newest first.
	ListDifferences(ctx context.Context, status Status, limit int, before uuid.UUID) ([]Stored, error)
	// CloseDifference closes an open difference. ErrNotFound, ErrNotOpen.
	CloseDifference(ctx context.Context, id uuid.UUID, by, note string) (Stored, error)
}
