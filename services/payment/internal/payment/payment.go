// Package payment has the rules of payments: when a payment may be opened, charged, abandoned and
// refunded. In the end every payer has what was paid for, or the money back.
package payment

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/google/uuid"

	"urr.guru/proto/events"
)

// Status is the state of a payment.
//
//	PREPARED → OPEN                        the reference is claimed, the buyer may be on the page
//	PREPARED, OPEN → EXPIRED               never charged: the time is over, or the payer gave up
//	PREPARED, OPEN, UNKNOWN → CONFIRMING   a charge begins
//	CONFIRMING → the status before         the charge was not sent
//	CONFIRMING → UNKNOWN                   the outcome of the charge is unknown
//	CONFIRMING, UNKNOWN → DECLINED         nothing was charged, and nothing will be
//	all but REFUNDED → CONFIRMED           the money was taken
//	CONFIRMED → REFUNDED                   all of the money was given back
//	REFUNDED → CONFIRMED                   a refund has failed
//
// A charge may become known only after DECLINED or EXPIRED. The money was taken all the same, so
// the ticket service must honour the payment, or have it refunded.
type Status string

// The statuses of a payment.
const (
	Prepared   Status = "PREPARED"
	Open       Status = "OPEN"
	Confirming Status = "CONFIRMING"
	Confirmed  Status = "CONFIRMED"
	Declined   Status = "DECLINED"
	Unknown    Status = "UNKNOWN"
	Expired    Status = "EXPIRED"
	Refunded   Status = "REFUNDED"
)

// Unsettled reports whether a charge has begun whose outcome is unknown.
func (s Status) Unsettled() bool { return s == Confirming || s == Unknown }

// Uncharged reports whether no charge has begun, so that the payment may end at once.
func (s Status) Uncharged() bool { return s == Prepared || s == Open }

// Type is the kind of object that is paid for.
type Type string

// The types of references.
const (
	Reservation Type = "reservation"
	Transfer    Type = "transfer"
	Membership  Type = "membership"
)

// Reference is the object that is paid for: a reservation, a transfer or a membership.
type Reference struct {
	Type Type
	ID   uuid.UUID
}

// Payable is the ticket service's answer about a reference.
type Payable struct {
	EventID   string
	Amount    int64 // in the currency's minor unit
	Currency  string
	ExpiresAt time.Time // the end of the hold
	// Description names what is paid for, such as an event's title and places.
	Description string
	// StatementSuffix is what card statements name after the account's prefix; empty: nothing.
	StatementSuffix string
}

// Payment is one attempt to pay for a reference.
type Payment struct {
	ID        uuid.UUID
	OrderID   string // identifies the payment at the provider
	Reference Reference
	UserID    string
	EventID   string
	// Amount is in the currency's minor unit.
	Amount   int64
	Currency string
	// Description names what is paid for on the provider's page: one line of at most maxDescription
	// characters. It never changes, since Stripe compares the parameters of a repeated call.
	Description string
	// StatementSuffix is what card statements name after the account's prefix; empty: nothing.
	StatementSuffix string
	// Email is the payer's verified address, for the provider's receipt; empty: it is not known, or the page
	// is open already.
	Email    string
	Provider string
	// Mode is that of the provider's key with which the payment was opened.
	Mode   Mode
	Status Status
	// Ref is the provider's id of its page (see Page.Ref), PageURL the page's address, after the
	// payment's end without its fragment, which may contain the token.
	Ref, PageURL string
	// Token authenticates the buyer who comes back from the page; it is empty after the payment's end.
	// TokenSHA256 is its digest, of which a late return is known; it is empty where the provider has no
	// page.
	Token, TokenSHA256 string
	// PaymentKey is the provider's key for the charge; a repeated charge uses it too.
	PaymentKey string
	ChargeID   string
	// ReceiptURL is the address of the provider's receipt; empty: there is none.
	ReceiptURL string
	// DeclineCode is why the latest attempt to pay was declined, also one on the provider's page, after
	// which the page may still be open.
	DeclineCode string
	// Captured is what the provider took, Refunded what it gave back, as far as this service knows.
	Captured, Refunded int64
	// RefundedByHand is the part of Refunded that a person gave back at the provider ("by hand"),
	// ByHandCounted the part of it that counts for refunds and tickets, Goodwill a part of the rest that
	// an operator has called so. A refund that the provider finds too large takes from Goodwill too.
	RefundedByHand, ByHandCounted, Goodwill int64
	// ByHandRequested says that the ticket service has still to say which tickets money by hand was for;
	// for a refund by hand, that it has to say so of what an operator has assigned.
	// Only decisions about refunds get it.
	ByHandRequested bool
	// Version grows by one with every change.
	Version   int64
	CreatedAt time.Time
	ExpiresAt time.Time
	// ConfirmingAt is when the first charge began, ChargedAt when the latest charge began; both are
	// zero before. Attempt counts the charges.
	ConfirmingAt, ChargedAt time.Time
	Attempt                 int
	// KeptCode is the code of the latest error that the provider keeps under the charge's key.
	KeptCode string
	// NoCharge says that the payment is not charged again: the reference is lost, or the provider only
	// repeats KeptCode.
	NoCharge bool
	// ExtendAt is when the claim at the ticket service is prolonged next; zero: never.
	ExtendAt time.Time
	// AbortDue says that the reference was claimed for this payment and must be released.
	AbortDue bool
	// CancelDue says that the provider must still close the payment's page or authorisation.
	CancelDue bool
	// DisputedAt is when this service learned that the payer disputes the charge at the bank; zero:
	// there is no dispute, or it is decided.
	DisputedAt time.Time
	// EvidenceDue is until when the provider takes evidence about the dispute; zero: it waits for none.
	EvidenceDue time.Time
	// WarnedAt is when this service learned that the card's issuer takes the charge for fraud, of the kind
	// FraudType; zero: the issuer has not said so. The payer may dispute it soon.
	WarnedAt  time.Time
	FraudType string
	// Hinted says that since the last look-up a webhook, or the buyer, came from the provider.
	Hinted bool
	// Returned says that it was the buyer of an open page.
	Returned bool
	// Checks counts the sweeper's attempts; Lease is the number of the latest lease.
	Checks int
	Lease  int64
}

// HasPage reports whether the provider has a page for the payment, open or not.
func (p Payment) HasPage() bool { return p.TokenSHA256 != "" }

// Unopened reports whether the provider was to open a page, and has not.
func (p Payment) Unopened() bool { return p.HasPage() && p.PageURL == "" && p.ConfirmingAt.IsZero() }

// TokenDigest returns the digest of a token as in TokenSHA256: "" for none.
func TokenDigest(token string) string {
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Awaited reports whether the buyer of an open page, or a webhook, says that it was paid, and the
// provider has not been asked since. Until it has answered, the payment does not end by time.
func (p Payment) Awaited() bool { return p.Status == Open && (p.Hinted || p.PaymentKey != "") }

// Unassigned returns the part of Hand that counts for nothing yet: nobody knows what it was for.
func (p Payment) Unassigned() int64 { return p.RefundedByHand - p.ByHandCounted - p.Goodwill }

// Entry is one line of a payment's timeline: its status at a time, with a note.
type Entry struct {
	At     time.Time
	Status Status
	Note   string
}

// View is a payment with its timeline and its refunds, oldest first.
type View struct {
	Payment  Payment
	Timeline []Entry
	Refunds  []Refund
	// Wait is about how long it takes until the provider is asked about an Awaited payment.
	Wait time.Duration
}

// Event is the type of a Kafka event about a payment.
type Event string

// The types of payment events.
const (
	EventConfirmed     Event = events.PaymentConfirmed
	EventDeclined      Event = events.PaymentDeclined
	EventRefunded      Event = events.PaymentRefunded
	EventDisputed      Event = events.PaymentDisputed
	EventDisputeClosed Event = events.PaymentDisputeClosed
)

// Answer is the answer to a confirmation.
type Answer struct {
	// Status is CONFIRMED, DECLINED or UNKNOWN, which the API calls PENDING.
	Status      Status    `json:"status"`
	DeclineCode string    `json:"declineCode,omitempty"`
	PaymentID   uuid.UUID `json:"paymentId"`
}
