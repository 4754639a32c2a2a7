// Package settlement applies the events of the payment service. A confirmed payment confirms its
// reservation, transfer or membership, or is rejected. A refund ends the tickets or the membership
// that it has claimed. A dispute marks tickets.
package settlement

import (
	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// PaymentEvent is the Kafka event that a payment was confirmed or refunded, or that its payer
// disputes the charge.
type PaymentEvent struct {
	// Key is the id of the Kafka event. An event whose Key was applied before is skipped.
	Key string
	// Kind and ReferenceID name what was paid; an empty Kind stands for Reservation.
	Kind        Kind
	ReferenceID uuid.UUID
	Payment     reservation.Payment
	// Refunded: the refund RefundID, for the cause Cause, was made. Otherwise the payment was
	// confirmed, unless it is about a Dispute.
	Refunded bool
	Cause    refund.Cause
	RefundID uuid.UUID
	// Dispute is set for the begin or the end of a dispute.
	Dispute *Dispute
}

// Dispute says whether the payer of tickets disputes the charge at the bank, as of a version of the
// payment.
type Dispute struct {
	Open    bool
	Version int64
}

// Confirms reports whether the event is the confirmation of a payment.
func (e *PaymentEvent) Confirms() bool { return !e.Refunded && e.Dispute == nil }

// EndsTickets reports whether the event is a refund that ends what it has claimed.
func (e *PaymentEvent) EndsTickets() bool { return e.Refunded && e.Cause.EndsTickets() }
