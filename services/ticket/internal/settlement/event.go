// Package settlement applies the payment service's Kafka events. A confirmed payment confirms its
// reservation, transfer or membership, or is rejected. A refund ends the tickets or the membership
// that it has claimed. A dispute is recorded with the payment's tickets.
package settlement

import (
	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
)

// PaymentEvent is the Kafka event that a payment was confirmed or refunded, or that its payer
// disputes the charge.
type PaymentEvent struct {
	// Key is the id of the Kafka event. An event whose Key was applied before is skipped.
	Key string
	// Type and ReferenceID identify what was paid.
	Type        purchase.Type
	ReferenceID uuid.UUID
	Payment     purchase.Payment
	// Refunded: the refund RefundID, for the cause Cause, was made. If it is false and Dispute is nil,
	// the payment was confirmed.
	Refunded bool
	Cause    refund.Cause
	RefundID uuid.UUID
	// Dispute is set if a dispute has begun or ended, and is nil otherwise.
	Dispute *Dispute
}

// Dispute says whether the payer of tickets disputes the charge at the bank. Version is the version
// of the payment that says so.
type Dispute struct {
	Open    bool
	Version int64
}

// Confirms reports whether the event is the confirmation of a payment.
func (e *PaymentEvent) Confirms() bool { return !e.Refunded && e.Dispute == nil }

// EndsTickets reports whether the event is a refund that ends the claimed tickets or membership.
func (e *PaymentEvent) EndsTickets() bool { return e.Refunded && e.Cause.EndsTickets() }
