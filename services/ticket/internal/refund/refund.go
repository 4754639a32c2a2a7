// Package refund decides which tickets end when a payment is refunded, and how much is given back
// for each. When a payment for a membership is refunded, the membership ends instead.
package refund

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Cause says why a payment was refunded.
type Cause string

// The causes of refunds. The first two end no ticket: Compensation gives a rejected payment back,
// and Transfer gives the seller of a ticket the price. ByHand is a refund that somebody has made at
// the payment provider, without this system.
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

// Status is the status of a claim: BEGUN, then DONE when the refund was made, or ABORTED when the
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
	ReasonAmountChanged  = "AMOUNT_CHANGED"   // less than was shown to whoever asks
	ReasonOnlyWhole      = "ONLY_WHOLE_ORDER" // the payment can be refunded as a whole only
	ReasonTooOld         = "REQUEST_TOO_OLD"
	ReasonEventCancelled = "EVENT_CANCELLED"
	ReasonTicketsPending = "TICKETS_PENDING" // the confirmation of the payment has not arrived here yet
)

// Reasons why a ticket is not claimed. The reason may also be the ticket's status, such as USED.
const (
	ExcludedTooLate   = "TOO_LATE"
	ExcludedNoRefunds = "NO_REFUNDS" // users cannot give tickets of the event back at all
	ExcludedNotYours  = "NOT_YOURS"
	// ExcludedNotCovered: nothing of the money that was given back by hand is left for the ticket.
	ExcludedNotCovered = "NOT_COVERED"
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
	// Excluded has the tickets that were not claimed. If the claim is refused, they are the reason.
	Excluded []ExcludedTicket
	// MembershipID is the claimed membership or zero. MembershipAmount is the amount it gives back.
	MembershipID     uuid.UUID
	MembershipAmount int64
	// PresentAmount is what the claim would have given back, if the reason is ReasonAmountChanged.
	PresentAmount int64
}

// Item is a claimed ticket, and the amount that is given back for it, in the currency's minor unit.
type Item struct {
	TicketID uuid.UUID
	Amount   int64
}

// ExcludedTicket says why a ticket is not claimed.
type ExcludedTicket struct {
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

// Amounts returns what is given back for each of the claimed tickets, in the order of TicketIDs.
func (c *Claim) Amounts() []int64 {
	amounts := make([]int64, len(c.Items))
	for i, item := range c.Items {
		amounts[i] = item.Amount
	}
	return amounts
}

// Request asks to claim the tickets, or the membership, that a refund shall end.
type Request struct {
	// ID is the id of the refund, and becomes the id of the claim.
	ID, PaymentID uuid.UUID
	Cause         Cause
	// UserID is the user who asks for the refund, if the cause is User.
	UserID string
	// TicketIDs are the tickets to claim, all or none; empty: every VALID ticket of the payment,
	// and, if the cause is Operator, every VOIDED one of which not all was given back.
	TicketIDs []uuid.UUID
	// KeepFees: the organiser keeps the fees. If the cause is User, the organiser always keeps
	// them, and cancellation fees too, except of what was sold before the event was postponed.
	KeepFees bool
	// Whole: the cause is ByHand, and nothing of the payment is left at the provider.
	Whole bool
	// HandLimit is the most that is given back for TicketIDs if the cause is ByHand: an operator says
	// that the money was for them.
	HandLimit int64
	// AskedAt is when the payment service stored the request.
	AskedAt time.Time
	// Shown is the amount that was shown to whoever asks; nil: none. A claim that would give back less
	// is refused. It changes nothing else, since a client sends it.
	Shown *int64
	// Membership: the payment is for a membership.
	Membership bool
	// AwaitsTickets: the payment is for places or a membership, and was not rejected. If it has no
	// tickets or membership yet, they will still be created.
	AwaitsTickets bool
}

// RefuseLess refuses c if it would give back less than was shown, and reports whether it did.
func (r *Request) RefuseLess(c *Claim, amount int64) bool {
	if r.Shown == nil || amount >= *r.Shown {
		return false
	}
	c.PresentAmount = amount
	c.Refuse(ReasonAmountChanged)
	return true
}

// EndsUnknownPayment reports whether somebody has given the whole payment back by hand, although
// the payment has paid for nothing yet: paidFor counts its tickets or memberships. It must then
// never pay for anything, even if its confirmation arrives later.
func (r *Request) EndsUnknownPayment(paidFor int) bool {
	return r.Cause == ByHand && r.Whole && paidFor == 0
}

// Store stores the claims of refunds.
type Store interface {
	// Begin claims tickets, or refuses the request. A repeated request gets the same answer again.
	Begin(ctx context.Context, req Request) (*Claim, error)
	// Abort makes the tickets of a claim VALID again. A later Begin of this refund claims nothing.
	Abort(ctx context.Context, refundID uuid.UUID) error
}
