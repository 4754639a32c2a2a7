// Package refund decides which tickets a refund may end, and what each gives back.
package refund

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Cause says why a payment was refunded.
type Cause string

// The causes of refunds. The first two end no ticket: a compensation gives a rejected payment back,
// and a transfer pays a part of the price to the seller. ByHand is a refund that a person has made
// at the provider.
const (
	Compensation   Cause = "COMPENSATION"
	Transfer       Cause = "TRANSFER"
	User           Cause = "USER"
	Operator       Cause = "OPERATOR"
	EventCancelled Cause = "EVENT_CANCELLED"
	ByHand         Cause = "BY_HAND"
)

// EndsTickets reports whether refunds of this cause claim tickets.
func (c Cause) EndsTickets() bool { return c != Compensation && c != Transfer }

// Status of a claim: BEGUN → DONE when the refund was made, or → ABORTED when the provider has
// refused it. A claim may be REFUSED, or ABORTED before it began.
type Status string

// The statuses of a claim.
const (
	Begun   Status = "BEGUN"
	Done    Status = "DONE"
	Aborted Status = "ABORTED"
	Refused Status = "REFUSED"
)

// Reasons for the refusal of a claim.
const (
	ReasonNotRefundable  = "NOT_REFUNDABLE"
	ReasonTooOld         = "REQUEST_TOO_OLD"
	ReasonEventCancelled = "EVENT_CANCELLED"
	ReasonTicketsPending = "TICKETS_PENDING" // the payment's confirmation was not heard yet
)

// Reasons why one ticket is not claimed, besides its status.
const (
	ProblemTooLate   = "TOO_LATE"
	ProblemNoRefunds = "NO_REFUNDS" // users cannot give tickets of the event back at all
	ProblemNotYours  = "NOT_YOURS"
)

// ReasonNotPaid is why a gift is not given back.
const ReasonNotPaid = "NOT_PAID"

// Claim is the answer to a request for a refund, which never changes: the tickets that the refund
// ends.
type Claim struct {
	ID uuid.UUID
	// PaymentID is zero when the claim was aborted before it began.
	PaymentID uuid.UUID
	Cause     Cause
	Status    Status
	// Reason is that of a refusal.
	Reason string
	// BegunAt is when the tickets were claimed.
	BegunAt time.Time
	Items   []Item
	// Problems are the tickets that were not claimed; those of a refusal stand in its way.
	Problems []Problem
}

// Item is a claimed ticket, and what it gives back in the currency's minor unit.
type Item struct {
	TicketID uuid.UUID
	Amount   int64
}

// Problem says why a ticket is not claimed.
type Problem struct {
	TicketID uuid.UUID
	Reason   string
}

// TicketIDs returns the ids of the claimed tickets.
func (c *Claim) TicketIDs() []uuid.UUID {
	ids := make([]uuid.UUID, len(c.Items))
	for i, item := range c.Items {
		ids[i] = item.TicketID
	}
	return ids
}

// Amounts returns what the claimed tickets give back, in the order of TicketIDs.
func (c *Claim) Amounts() []int64 {
	amounts := make([]int64, len(c.Items))
	for i, item := range c.Items {
		amounts[i] = item.Amount
	}
	return amounts
}

// Request asks for a claim.
type Request struct {
	// ID is the refund's, and becomes the claim's.
	ID, PaymentID uuid.UUID
	Cause         Cause
	// UserID is the user who asks for a refund of cause User.
	UserID string
	// TicketIDs are the tickets, all of them or none; empty: every VALID ticket of the payment.
	TicketIDs []uuid.UUID
	// KeepFees leaves the fees with the organiser. A user's refund does, and cancellation fees too, unless
	// the event was postponed.
	KeepFees bool
	// Whole says of a refund by hand that nothing is left of the payment at the provider.
	Whole   bool
	AskedAt time.Time
	// AwaitsTickets says that tickets follow if there are none yet: the payment is for places, and was not
	// rejected.
	AwaitsTickets bool
}

// EndsUnknownPayment reports whether the payment is to pay for nothing from now on: all of it was
// given back before its confirmation was heard, so that no ticket of it is known.
func (r *Request) EndsUnknownPayment(tickets int) bool {
	return r.Cause == ByHand && r.Whole && tickets == 0
}

// Store keeps the claims of refunds.
type Store interface {
	// Begin claims tickets, or refuses to. A repeated request gets the first answer.
	Begin(ctx context.Context, req Request) (*Claim, error)
	// Abort makes the tickets of a claim VALID again. A claim that has not begun never will.
	Abort(ctx context.Context, refund uuid.UUID) error
}
