// Package payment holds the rules of payments: when one may be opened, charged, given up and given
// back, and what must be known before that is said. Whoever pays ends with what was paid for, or
// with the money.
package payment

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/proto/events"
)

// Status of a payment.
//
//	PREPARED → CONFIRMING → CONFIRMED | DECLINED | UNKNOWN;  UNKNOWN → CONFIRMED | DECLINED;  PREPARED → EXPIRED
//	CONFIRMED → REFUNDING → REFUNDED (or back to CONFIRMED after a part)
//
// A charge that shows up late turns DECLINED and EXPIRED into CONFIRMED too: the money is there, so
// that ticket must honour it or have it refunded. CONFIRMING falls back to PREPARED when ticket
// could not be asked or the charge was not sent, since nothing was charged then.
type Status string

// The statuses.
const (
	Prepared   Status = "PREPARED"
	Confirming Status = "CONFIRMING"
	Confirmed  Status = "CONFIRMED"
	Declined   Status = "DECLINED"
	Unknown    Status = "UNKNOWN"
	Expired    Status = "EXPIRED"
	Refunding  Status = "REFUNDING"
	Refunded   Status = "REFUNDED"
)

// Unsettled reports whether the provider may or may not have charged.
func (s Status) Unsettled() bool { return s == Confirming || s == Unknown }

// Type of what is paid.
type Type string

// The types.
const (
	Reservation Type = "reservation"
	Transfer    Type = "transfer"
	Membership  Type = "membership"
)

// Reference is what is paid: a reservation, a transfer or a membership.
type Reference struct {
	Type Type
	ID   uuid.UUID
}

// Payable is what ticket says of a reference.
type Payable struct {
	EventID string
	// Amount in the currency's minor unit.
	Amount   int64
	Currency string
	// ExpiresAt is the end of the hold.
	ExpiresAt time.Time
}

// Payment is one attempt to pay for a reference.
type Payment struct {
	ID uuid.UUID
	// OrderID is what the provider knows it by.
	OrderID   string
	Reference Reference
	UserID    string
	EventID   string
	// Amount in the currency's minor unit.
	Amount      int64
	Currency    string
	Provider    string
	Status      Status
	PaymentKey  string
	ChargeID    string
	DeclineCode string
	// Refunded is what was given back; Pending is what is being given back.
	Refunded, Pending int64
	// Version grows by one with every change.
	Version   int64
	CreatedAt time.Time
	ExpiresAt time.Time
	// ConfirmingAt is when charging began; zero before.
	ConfirmingAt time.Time
	// AbortDue: the reference was claimed for this payment and must be told that nothing was paid.
	AbortDue bool
	// Checks counts the sweeper's looks; Lease is the number of the last one that acts on the
	// payment.
	Checks int
	Lease  int64
}

// Entry of a payment's timeline.
type Entry struct {
	At     time.Time
	Status Status
	Note   string
}

// Cause of a refund. It travels in PAYMENT_REFUNDED, so that a compensation never touches a
// reservation that lives.
type Cause string

// The causes.
const (
	// Compensation gives back what was paid and cannot be honoured.
	Compensation Cause = "COMPENSATION"
	// Operator is a person's decision.
	Operator Cause = "OPERATOR"
)

// Refund is money on its way back.
type Refund struct {
	// ID is also the key under which the provider refunds once.
	ID        uuid.UUID
	PaymentID uuid.UUID
	OrderID   string
	// Amount in the currency's minor unit.
	Amount int64
	Cause  Cause
	Reason string
	// Attempts made, the present one included.
	Attempts int
	Lease    int64
	// ProviderID is the provider's own number, once it is done; "by hand" for what a person did
	// there.
	ProviderID string
	CreatedAt  time.Time
}

// Event is what the platform is told about a payment.
type Event string

// The events.
const (
	EventConfirmed Event = events.PaymentConfirmed
	EventRefunded  Event = events.PaymentRefunded
)

// Answer to a confirmation.
type Answer struct {
	// Status is CONFIRMED, DECLINED or (the API's PENDING) UNKNOWN.
	Status      Status    `json:"status"`
	DeclineCode string    `json:"declineCode,omitempty"`
	PaymentID   uuid.UUID `json:"paymentId"`
}
