package payment

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Cause says why a payment is refunded. The event PAYMENT_REFUNDED carries it.
type Cause string

// The causes of refunds.
const (
	// Compensation refunds a payment that cannot be honoured, or a charge of a wrong amount.
	Compensation Cause = "COMPENSATION"
	// ByUser and ByOperator refund what a person asked for. The ticket service decides on each.
	ByUser     Cause = "USER"
	ByOperator Cause = "OPERATOR"
	// EventCancelled refunds tickets of a cancelled event, as the ticket service has decided.
	EventCancelled Cause = "EVENT_CANCELLED"
	// TransferPayout pays the seller of a ticket, from the seller's own payment.
	TransferPayout Cause = "TRANSFER"
	// ByHand records what a person refunded at the provider.
	ByHand Cause = "BY_HAND"
)

// Causes are all causes of refunds.
var Causes = []Cause{Compensation, ByUser, ByOperator, EventCancelled, TransferPayout, ByHand} //nolint:gochecknoglobals // a constant

// undone reports whether a refund of this cause is given up if the provider refuses it: its tickets
// become valid again. A refund of any other cause stays owed, whatever the provider says.
func (c Cause) undone() bool { return c == ByUser || c == ByOperator }

// RefundStatus is the state of a refund.
//
//	REQUESTED → PENDING | REJECTED             as ticket answers; BY_HAND: → DONE
//	PENDING → ACCEPTED → DONE, PENDING → DONE  as the provider answers; published once
//	PENDING → REFUSED                          refused by the provider, or disputed: USER, OPERATOR, not published
//	PENDING → HELD                             refused by the provider, or disputed: all others
//	ACCEPTED, DONE → HELD                      failed at the provider, days later
//	HELD → PENDING | RESOLVED                  as a person decides: again, or paid otherwise
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
)

// RefundItem is the amount that a refund gives back for one ticket, in the currency's minor unit.
type RefundItem struct {
	TicketID uuid.UUID
	Amount   int64
}

// Left is a ticket that a refund does not end, and why: the ticket's status, or another reason.
type Left struct {
	TicketID uuid.UUID `json:"ticketId"`
	Reason   string    `json:"reason"`
}

// Want is what a refund asks of the ticket service.
type Want struct {
	// UserID is the user who asks for the refund.
	UserID string `json:"userId,omitempty"`
	// TicketIDs are the tickets; none: every valid ticket of the payment.
	TicketIDs []uuid.UUID `json:"ticketIds,omitempty"`
	// Fees is false to keep the fees in a refund by an operator.
	Fees *bool `json:"fees,omitempty"`
	// Whole says of a refund by hand that nothing is left of the payment at the provider.
	Whole bool `json:"whole,omitempty"`
	// BuyerPaymentID is the buyer's payment if the refund pays the seller of a ticket.
	BuyerPaymentID *uuid.UUID `json:"buyerPaymentId,omitempty"`
}

// equal reports whether w and o ask for the same.
func (w Want) equal(o Want) bool {
	sameFees := w.Fees == o.Fees || w.Fees != nil && o.Fees != nil && *w.Fees == *o.Fees
	return sameFees && w.UserID == o.UserID && w.Whole == o.Whole && slices.Equal(w.TicketIDs, o.TicketIDs)
}

// Refund is one refund of a payment.
type Refund struct {
	// ID is also the id of the claim at ticket, and in the provider's metadata.
	ID        uuid.UUID
	PaymentID uuid.UUID
	Provider  string
	Cause     Cause
	// Request identifies the refund among those of its payment and cause, so that it is stored once.
	Request string
	Reason  string
	Status  RefundStatus
	Want    Want
	// Amount is what is owed, in the currency's minor unit. Send is the part of it that the provider
	// is asked to give back: Amount less what a person has given back by hand.
	Amount, Send int64
	// Gen is the number of the idempotency key at the provider, id#gen. FirstSent and LastSent are
	// times before the first and the latest call with this key.
	Gen                 int
	FirstSent, LastSent time.Time
	// DoubtAt is the latest time at which a call may have been sent whose outcome is unknown; zero:
	// there is no such call.
	DoubtAt time.Time
	// ProviderID is the provider's id of the refund, once it is accepted.
	ProviderID string
	// Published says that PAYMENT_REFUNDED was published: the tickets are gone for good.
	Published bool
	// AbortDue says that ticket must still be told that the claim is given up.
	AbortDue bool
	// Attempts counts the sweeper's attempts; Lease is the number of the latest lease.
	Attempts  int
	Lease     int64
	LastError string
	CreatedAt time.Time
	// Items are the tickets that end with the refund, Left those that the ticket service has
	// not claimed.
	Items []RefundItem
	Left  []Left
	// SendAfter is the time from insertion until a refund is first due. Only new refunds have it.
	SendAfter time.Duration
}

// Holds reports whether the refund has claimed its tickets, or will ask ticket for them.
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
	// Refund is the refund in its new state.
	Refund Refund
	// NewItems are stored as the refund's items.
	NewItems []RefundItem
	// Wait is the time until the sweeper continues with the refund, or Keep.
	Wait time.Duration
	// Payment is the change of the payment; nil: none.
	Payment *Change
}

// DecideRefund returns the change to make to the refund r of the payment p; nil: none. Both rows
// are locked. now is the database's time.
type DecideRefund func(p Payment, r Refund, now time.Time) (*RefundChange, error)

// publishing adds PAYMENT_REFUNDED to the change of a payment, once per refund. A charge of a wrong
// amount was never published as paid, so its refund is not published either.
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
