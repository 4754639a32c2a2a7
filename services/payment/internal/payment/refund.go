package payment

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Cause is why a payment is refunded. The event PAYMENT_REFUNDED contains it.
type Cause string

// The causes of refunds.
const (
	// Compensation refunds a payment that the ticket service rejects, or a charge of a wrong amount.
	Compensation Cause = "COMPENSATION"
	// ByUser and ByOperator refund what a person asked for. The ticket service decides on each.
	ByUser     Cause = "USER"
	ByOperator Cause = "OPERATOR"
	// EventCancelled refunds tickets of a cancelled event, as the ticket service has decided.
	EventCancelled Cause = "EVENT_CANCELLED"
	// TransferPayout pays the seller of a ticket, from the seller's own payment.
	TransferPayout Cause = "TRANSFER"
	// ByHand records what a person refunded at the provider, or what an operator says that it was for.
	ByHand Cause = "BY_HAND"
	// ByHandFailed owes what a refund by hand had covered, which has failed at the provider since.
	ByHandFailed Cause = "BY_HAND_FAILED"
)

// Causes are all causes of refunds.
var Causes = []Cause{Compensation, ByUser, ByOperator, EventCancelled, TransferPayout, ByHand, ByHandFailed} //nolint:gochecknoglobals // a constant

// undone reports whether a refund of this cause is given up if the provider refuses it: its tickets
// become valid again. A refund of any other cause stays owed after a refusal.
func (c Cause) undone() bool { return c == ByUser || c == ByOperator }

// waitsForHand reports whether a refund of this cause is not sent while money that a person gave back
// counts for nothing yet: that money may have been for the same tickets.
func (c Cause) waitsForHand() bool { return c.undone() || c == TransferPayout || c == ByHandFailed }

// RefundStatus is the state of a refund.
//
//	REQUESTED → PENDING       the tickets are claimed
//	REQUESTED → REJECTED      the ticket service refuses
//	REQUESTED → DONE          BY_HAND only: its tickets end, published
//	PENDING, HELD → ACCEPTED  the provider accepts the refund, published
//	PENDING, HELD → DONE      the provider has made the refund, published
//	ACCEPTED → DONE           the provider has made the refund
//	PENDING → REFUSED         refused, or the charge is disputed; causes USER and OPERATOR
//	PENDING → HELD            refused, or the charge is disputed; all other causes
//	PENDING → HELD            money by hand is unassigned; not COMPENSATION and EVENT_CANCELLED
//	PENDING → HELD            an operator holds it
//	ACCEPTED, DONE → HELD     the refund fails at the provider, days later
//	DONE → FAILED             the same, BY_HAND only; what it has covered becomes a HELD refund
//	HELD → PENDING            an operator has it sent again, or the money by hand has failed
//	HELD → RESOLVED           an operator has paid it in another way, published
type RefundStatus string

// The statuses of a refund.
const (
	RefundRequested RefundStatus = "REQUESTED"
	RefundPending   RefundStatus = "PENDING"
	RefundAccepted  RefundStatus = "ACCEPTED"
	RefundDone      RefundStatus = "DONE"
	RefundRejected  RefundStatus = "REJECTED"
	RefundRefused   RefundStatus = "REFUSED"
	RefundHeld      RefundStatus = "HELD"
	RefundResolved  RefundStatus = "RESOLVED"
	RefundFailed    RefundStatus = "FAILED"
)

// RefundItem is the amount that a refund gives back for one ticket, in the currency's minor unit.
type RefundItem struct {
	TicketID uuid.UUID
	Amount   int64
}

// ExcludedTicket is a ticket that a refund leaves as it is; Reason is its status, or another
// reason.
type ExcludedTicket struct {
	TicketID uuid.UUID `json:"ticketId"`
	Reason   string    `json:"reason"`
}

// RefundScope says who asks for a refund, and what it covers. The ticket service gets it without
// BuyerPaymentID, and UserID only if Cause is ByUser.
type RefundScope struct {
	// UserID is the user who asks for the refund.
	UserID string `json:"userId,omitempty"`
	// TicketIDs are the tickets; none: every valid ticket of the payment.
	TicketIDs []uuid.UUID `json:"ticketIds,omitempty"`
	// Fees is false if an operator's refund does not give back the fees.
	Fees *bool `json:"fees,omitempty"`
	// Shown is the amount that was shown to whoever asks, of money by hand what was unassigned; nil: none.
	// It only ever refuses a refund.
	Shown *int64 `json:"shown,omitempty"`
	// Whole is true for a refund by hand if nothing is left of the charge at the provider.
	Whole bool `json:"whole,omitempty"`
	// HandLimit is set if an operator says that money by hand was for TicketIDs: the most that it was.
	// Goodwill is set instead if it was for none.
	HandLimit int64 `json:"handLimit,omitempty"`
	Goodwill  int64 `json:"goodwill,omitempty"`
	// BuyerPaymentID is the buyer's payment if the refund pays the seller of a ticket.
	BuyerPaymentID *uuid.UUID `json:"buyerPaymentId,omitempty"`
}

// equal reports whether s and o ask for the same refund. BuyerPaymentID and HandLimit are not
// compared.
func (s RefundScope) equal(o RefundScope) bool {
	return same(s.Fees, o.Fees) && same(s.Shown, o.Shown) && s.UserID == o.UserID && s.Whole == o.Whole && s.Goodwill == o.Goodwill &&
		slices.Equal(s.TicketIDs, o.TicketIDs)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// Refund is one refund of a payment.
type Refund struct {
	// ID is also the id of the claim at the ticket service, and is in the provider's metadata.
	ID        uuid.UUID
	PaymentID uuid.UUID
	Provider  string
	Cause     Cause
	// Request identifies the refund among those of its payment and cause, so that it is stored once.
	Request string
	Reason  string
	Status  RefundStatus
	Scope   RefundScope
	// Amount is what is owed, in the currency's minor unit; of a refund that was REJECTED with
	// ErrAmountChanged, what it would have given back. Send is what the provider is asked to give back:
	// Amount minus what a person has given back by hand.
	Amount, Send int64
	// KeyNumber is the number of the current idempotency key at the provider, id#gen. FirstSent and LastSent
	// are times shortly before the first and the latest call with this key.
	KeyNumber           int
	FirstSent, LastSent time.Time
	// DoubtAt is the time of the latest call to the provider whose outcome is unknown; zero: there is
	// no such call.
	DoubtAt time.Time
	// RefusedKeys counts the keys under which the provider keeps a refusal, RefusedAt is when it
	// first kept one, or an error, and KeptCode its latest code. An operator's retry clears them.
	RefusedKeys int
	RefusedAt   time.Time
	KeptCode    string
	// ProviderID is the provider's id of the refund. It is empty until the provider accepts.
	ProviderID string
	// PendingReason is why the provider has not made an accepted refund yet; empty: it does not say.
	PendingReason string
	// Published says that PAYMENT_REFUNDED was published: its tickets cannot become valid again.
	Published bool
	// AbortDue says that the claim at the ticket service must still be released.
	AbortDue bool
	// Attempts counts the sweeper's attempts; Lease is the number of the latest lease.
	Attempts  int
	Lease     int64
	LastError string
	CreatedAt time.Time
	// Items are the tickets that the refund ends, Excluded those that the ticket service did not claim.
	Items    []RefundItem
	Excluded []ExcludedTicket
	// SendAfter is the time from insertion until the refund is first due. Only a new refund has it.
	SendAfter time.Duration
}

// Holds reports whether the refund has claimed its tickets, or is about to claim them.
func (r Refund) Holds() bool {
	return r.AbortDue || r.Status != RefundRejected && r.Status != RefundRefused
}

// DueRefund is a refund that the sweeper has leased, and its payment.
type DueRefund struct {
	Refund  Refund
	Payment Payment
}

// RefundChange is a decision about a refund. The store writes it in one transaction.
type RefundChange struct {
	Refund   Refund        // the refund in its new state
	NewItems []RefundItem  // stored as the refund's items
	Wait     time.Duration // until the sweeper continues with the refund; Keep: unchanged
	Payment  *Change       // the change of the payment; nil: none
}

// DecideRefund returns the change to make to the refund r of the payment p; nil: none. Both rows
// are locked. now is the database's time.
type DecideRefund func(p Payment, r Refund, now time.Time) (*RefundChange, error)

// publishing adds the event PAYMENT_REFUNDED to the payment's change, once per refund. A charge of
// a wrong amount was never published as paid, so its refund is not published either.
func (c *RefundChange) publishing(p Payment) *RefundChange {
	if c.Refund.Published || p.Captured != p.Amount {
		return c
	}
	c.Refund.Published = true
	refund := c.Refund
	if c.NewItems != nil {
		refund.Items = c.NewItems
	}
	c.Payment.Event, c.Payment.Refund = EventRefunded, &refund
	return c
}
