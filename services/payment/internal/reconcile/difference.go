// Package reconcile compares the account of a payment provider with the payments, in both
// directions. Compare finds the differences of one order. Run compares every order that the
// provider lists for a day, and every order that was captured or refunded here on that day. Before
// it records a difference, it reads both sides of the order once more.
package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// The errors of DifferenceAdmin.CloseDifference.
var (
	ErrNotFound = errs.ErrDifferenceNotFound
	ErrNotOpen  = errs.ErrDifferenceNotOpen
)

// Kind says what differs.
type Kind string

// The kinds of differences. "Here" are the payments, "there" is the provider.
const (
	// CaptureUnknown: the provider has captured an order with an id like ours, without a payment.
	CaptureUnknown Kind = "CAPTURE_UNKNOWN"
	// CaptureOnlyThere: the provider has captured the order, and the payment is not paid.
	CaptureOnlyThere Kind = "CAPTURE_ONLY_THERE"
	// CaptureOnlyHere: the payment is captured here, and the provider has no capture of the order.
	CaptureOnlyHere Kind = "CAPTURE_ONLY_HERE"
	// CaptureTwice: the provider has another capture besides the payment's charge.
	CaptureTwice Kind = "CAPTURE_TWICE"
	// CaptureAmount: the provider has captured another amount or currency.
	CaptureAmount Kind = "CAPTURE_AMOUNT"
	// CaptureUnserved: the payment is captured here, but no configured provider could have taken the
	// money, so there is no account to compare it with.
	CaptureUnserved Kind = "CAPTURE_UNSERVED"
	// RefundUnknown: the provider has a refund, with our id or without one, that is not stored here.
	RefundUnknown Kind = "REFUND_UNKNOWN"
	// RefundTwice: the provider has two refunds with the id of one refund here.
	RefundTwice Kind = "REFUND_TWICE"
	// RefundState: refunded there but not here, or refunded here but failed there.
	RefundState Kind = "REFUND_STATE"
	// RefundOnlyHere: refunded here, but the provider has no such refund.
	RefundOnlyHere Kind = "REFUND_ONLY_HERE"
	// RefundAmount: the provider has refunded another amount.
	RefundAmount Kind = "REFUND_AMOUNT"
	// RefundSum: each refund agrees, but Refunded of the payment is not their sum.
	RefundSum Kind = "REFUND_SUM"
)

// Ticket stands for the ticket service in the place of a provider, and is "there" in the kinds below.
// The order id of such a difference is the payment's id.
const Ticket = "ticket"

// The kinds of differences between the payments and the ticket service.
const (
	// TicketsMissing: the payment is paid, and the ticket service has neither sold anything for it nor
	// rejected it; or it has, and the payment is not given back.
	TicketsMissing Kind = "TICKETS_MISSING"
	// TicketsUnpaid: something was sold for a payment that is unknown here, not paid, or given back as
	// rejected.
	TicketsUnpaid Kind = "TICKETS_UNPAID"
	// TicketsAmount: it was sold for another amount or to somebody else, or other refunds were promised.
	TicketsAmount Kind = "TICKETS_AMOUNT"
)

// Kinds are all kinds of differences between the payments and a provider's account.
var Kinds = []Kind{ //nolint:gochecknoglobals // a constant
	CaptureUnknown, CaptureOnlyThere, CaptureOnlyHere, CaptureTwice, CaptureAmount, CaptureUnserved,
	RefundUnknown, RefundTwice, RefundState, RefundOnlyHere, RefundAmount, RefundSum,
}

// TicketKinds are all kinds of differences between the payments and the ticket service.
var TicketKinds = []Kind{TicketsMissing, TicketsUnpaid, TicketsAmount} //nolint:gochecknoglobals // a constant

// Status is the state of a stored difference.
//
//	WATCHED → OPEN     it was WATCHED for MovesFor, or the payment no longer changes
//	WATCHED → CLOSED   a run no longer finds it
//	OPEN → CLOSED      a run no longer finds it, or an operator closes it
//	CLOSED → OPEN      found again; with other values only, if an operator closed it
//	CLOSED → WATCHED   the same, while the payment or refund is still changing
type Status string

// The statuses.
const (
	Watched Status = "WATCHED"
	Open    Status = "OPEN"
	Closed  Status = "CLOSED"
)

// MovesFor is how long a difference may be WATCHED: a run on the next day finds it OPEN.
const MovesFor = 20 * time.Hour

// Difference is a mismatch of both sides. Provider, Kind, OrderID and EntryID identify it.
type Difference struct {
	Kind     Kind
	Provider string
	OrderID  string
	// EntryID is the id of the charge or refund, if possible the provider's; empty: the whole order.
	EntryID   string
	PaymentID uuid.UUID // zero: there is no payment
	// Ours and Theirs are texts about what this service and the provider have.
	Ours, Theirs string
	// Amount and Currency are what the provider has captured or refunded; 0 if it has nothing.
	Amount   int64
	Currency string
	// Moves says that the payment or refund is still changing here: WATCHED, not OPEN.
	Moves bool
}

// String returns the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s provider=%s order=%s entry=%q here=%q there=%q", d.Kind, d.Provider, d.OrderID, d.EntryID, d.Ours, d.Theirs)
}

// Stored is a stored difference with its history.
type Stored struct {
	Difference

	ID                            uuid.UUID
	Status                        Status
	Day                           time.Time // the day of the run that first found it
	FirstSeen, LastSeen, ClosedAt time.Time
	// ClosedBy is the operator who closed it, with the text Note; empty: a run no longer found it.
	ClosedBy, Note string
}

// DifferenceAdmin lists and closes differences for operators.
type DifferenceAdmin interface {
	// ListDifferences returns up to limit differences in a status with smaller ids than before (zero:
	// all), newest first.
	ListDifferences(ctx context.Context, status Status, limit int, before uuid.UUID) ([]Stored, error)
	// CloseDifference closes an open difference. Errors: ErrNotFound, ErrNotOpen.
	CloseDifference(ctx context.Context, id uuid.UUID, by, note string) (Stored, error)
}
