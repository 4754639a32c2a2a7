// Package refund decides which tickets a refund ends, and how much is given back for each. A refund
// of a membership claims the membership instead.
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

// Status is the status of a claim: BEGUN → DONE when the refund was made, BEGUN → ABORTED when the
// provider has refused it. A claim may also be REFUSED at once, or ABORTED before it began.
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
	ReasonTicketsPending = "TICKETS_PENDING" // the confirmation of the payment has not arrived here yet
)

// Reasons why one ticket is not claimed, besides its status.
const (
	ProblemTooLate   = "TOO_LATE"
	ProblemNoRefunds = "NO_REFUNDS" // users cannot give tickets of the event back at all
	ProblemNotYours  = "NOT_YOURS"
)

// ReasonNotPaid is the reason why a ticket that was a gift cannot be given back.
const ReasonNotPaid = "NOT_PAID"

// Claim is the answer to a request for a refund: which tickets the refund ends, or why it is
// refused. The answer never changes.
type Claim struct {
	ID uuid.UUID
	// PaymentID is zero when the claim was aborted before it began.
	PaymentID uuid.UUID
	Cause     Cause
	Status    Status
	// Reason is the reason of a refusal; empty otherwise.
	Reason string
	// BegunAt is when the tickets were claimed.
	BegunAt time.Time
	Items   []Item
	// Problems name the tickets that were not claimed, and why. In a refusal they are its reasons.
	Problems []Problem
	// MembershipID is the claimed membership, zero for tickets, and MembershipAmount what it gives back.
	MembershipID     uuid.UUID
	MembershipAmount int64
}

// Item is a claimed ticket, and the amount that is given back for it, in the currency's minor unit.
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

// Amounts returns the amounts that are given back for the claimed tickets, in the order of TicketIDs.
func (c *Claim) Amounts() []int64 {
	amounts := make([]int64, len(c.Items))
	for i, item := range c.Items {
		amounts[i] = item.Amount
	}
	return amounts
}

// Request asks for the claim of tickets by a refund.
type Request struct {
	// ID is the id of the refund, and becomes the id of the claim.
	ID, PaymentID uuid.UUID
	Cause         Cause
	// UserID is the user who asks for a refund of cause User.
	UserID string
	// TicketIDs are the tickets to claim, all or none; empty: every VALID ticket of the payment.
	TicketIDs []uuid.UUID
	// KeepFees: the organiser keeps the fees. If the cause is User, the organiser always keeps
	// them, and cancellation fees too, unless the event was postponed.
	KeepFees bool
	// Whole: a refund by hand has given the whole payment back at the provider.
	Whole   bool
	AskedAt time.Time
	// Membership: the payment is for a membership.
	Membership bool
	// AwaitsTickets: the payment is for places or a membership and was not rejected, so that its
	// tickets or membership still follow if there are none.
	AwaitsTickets bool
}

// EndsUnknownPayment reports whether the whole payment was given back before this service has received
// its confirmation, so that it has paid for nothing yet: no tickets, and no membership. The payment must
// then never pay for anything.
func (r *Request) EndsUnknownPayment(paidFor int) bool {
	return r.Cause == ByHand && r.Whole && paidFor == 0
}

// Store stores the claims of refunds.
type Store interface {
	// Begin claims tickets, or refuses the request. A repeated request gets the first answer.
	Begin(ctx context.Context, req Request) (*Claim, error)
	// Abort makes the tickets of a claim VALID again. A later Begin of this refund claims nothing.
	Abort(ctx context.Context, refundID uuid.UUID) error
}
