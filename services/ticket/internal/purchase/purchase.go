// Package purchase has what all things have in common that users pay for: reservations, transfers of
// tickets, and memberships. Each has a Claim: the time in which it must be paid, and the payment that
// uses this time. What only one of them does is in its own methods (Purchase) and in its Rules.
package purchase

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
)

// Errors of requests about payments.
var (
	ErrReferenceNotFound = errs.ErrReferenceNotFound
	ErrHoldExpired       = errs.ErrHoldExpired
	ErrNotPayable        = errs.ErrNotPayable
	ErrAlreadyPaid       = errs.ErrAlreadyPaid
	ErrPaymentInProgress = errs.ErrPaymentInProgress
)

// Reasons for the rejection of a payment, which also end purchases.
const (
	ReasonHoldExpired    = "HOLD_EXPIRED"
	ReasonAlreadyPaid    = "ALREADY_PAID"
	ReasonRefunded       = "REFUNDED"
	ReasonEventCancelled = "EVENT_CANCELLED"
)

// Type says what a purchase is. The payment service calls it payment type.
type Type string

// The types.
const (
	Reservation Type = "reservation"
	Transfer    Type = "transfer"
	Membership  Type = "membership"
)

// Contact is the address for e-mails to a user, and their language. Empty Email: no e-mails.
type Contact struct{ Email, Language string }

// Payment is a payment that was made for a purchase.
type Payment struct {
	ID       uuid.UUID
	UserID   string
	EventID  string
	Amount   int64
	Currency string
	// WholeOnly: only the whole amount can be refunded, no part of it.
	WholeOnly bool
	// EndedWhy is set for a payment that can never pay for anything: the reason of its rejection,
	// or ReasonRefunded if it was given back before its confirmation was delivered.
	EndedWhy string
}

// UnderWay is a payment under way for a purchase (ReferenceID).
type UnderWay struct{ ReferenceID, PaymentID uuid.UUID }

// Failure says why a payment was not taken; zero: the user gave it up, or let its time pass.
type Failure struct {
	// Declined: it was declined, or could not be charged. Unopened: the provider has opened no page for it.
	Declined, Unopened bool
}

// Payable is what a purchase costs, and for whom.
type Payable struct {
	Type    Type
	ID      uuid.UUID
	UserID  string
	EventID string // empty for a membership
	// Amount is in the currency's minor unit.
	Amount   int64
	Currency string
	// ExpiresAt is the end of the time to pay.
	ExpiresAt time.Time
	// Description is what the payment provider's page shows.
	Description string
	// StatementSuffix is what a card's statement names; empty: only the account's own name.
	StatementSuffix string
}

// Purchase is something that a user pays for, with what else decides about its payments. Its row is
// locked, unless it is only read. Its type embeds a Claim.
type Purchase interface {
	// ToPay returns what it costs.
	ToPay() *Payable
	// Payable returns nil while the user can pay for it with this payment; zero: with a new one.
	// Errors: ErrReferenceNotFound for another user's purchase, ErrHoldExpired, ErrAlreadyPaid,
	// ErrNotPayable, and those of its type.
	Payable(user string, payment uuid.UUID, now time.Time) error
	// Unpaid reports whether it waits to be paid until the end of its claim, which may have passed.
	Unpaid() bool
	// Paid reports whether a payment has paid for it, and another one is rejected therefore.
	Paid() bool
	// Expire ends it if it is unpaid and its time to pay is over.
	Expire(now time.Time)
	// Claimed follows each change of its claim; before is the claim before the change.
	Claimed(before Claim)
	// Refusal returns the reason why it cannot be paid any more by a payment that was taken; empty: it can.
	Refusal(p Payment, now time.Time) string
	// Accept makes it paid by p.
	Accept(p Payment, now time.Time)
	// Reject publishes that p is rejected and must be refunded.
	Reject(p Payment, reason string, now time.Time)
	// Rules say in which ways its type differs from others.
	Rules() Rules

	claim() *Claim
}

// Rules are the ways in which the claims of a type of purchase differ from those of others. The zero
// value are those of a type without special needs.
type Rules struct {
	// ForgetsCharges: it is not known whether the payment under way may have been charged. So it
	// counts as charged when its time is asked for without saying how much.
	ForgetsCharges bool
	// KeepsEnd: a claim before the charge that does not move the end of a charge's time changes nothing.
	KeepsEnd bool
	// CountsFailures: payments that fail count, so that some pages are forgiven. Otherwise each page
	// counts, also one that could not be opened.
	CountsFailures bool
	// OtherPages are the pages of the user's other purchases that count for the limit of pages.
	OtherPages Pages
	// NeedsPayment: only a payment under way can be extended or given up. Otherwise the zero id stands
	// for none, and a purchase without a payment gets the same time.
	NeedsPayment bool
	// EndsWhenGivenUpLate: a payment that is given up after the end of its time ends the purchase,
	// which otherwise waits for the sweeper.
	EndsWhenGivenUpLate bool
	// AcceptsLate: a payment that is taken after the end of the time to pay is accepted until the
	// sweeper has ended the purchase.
	AcceptsLate bool
	// ForgetsPayers: others may have begun the earlier payments. Each of them is given back, whoever
	// has made it.
	ForgetsPayers bool
}
