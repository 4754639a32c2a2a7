// Package settlement applies what the payment service reports: a confirmed payment confirms its
// reservation or is rejected, and a refund ends the tickets that it has claimed.
package settlement

import (
	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// PaymentEvent is the Kafka event that a payment was confirmed or refunded.
type PaymentEvent struct {
	// Key is the id of the Kafka event. An event whose Key was applied before is skipped.
	Key           string
	ReservationID uuid.UUID
	Payment       reservation.Payment
	// Refunded: the refund RefundID, for the cause Cause, was made. Otherwise the payment was
	// confirmed.
	Refunded bool
	Cause    refund.Cause
	RefundID uuid.UUID
}

// EndsTickets reports whether the event is that of a refund which ends the tickets of its claim.
func (e *PaymentEvent) EndsTickets() bool { return e.Refunded && e.Cause.EndsTickets() }
