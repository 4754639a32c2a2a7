// Package settlement applies what payment reports: a payment that was taken confirms what it was
// made for or is rejected, and a refund ends the tickets that it has claimed.
package settlement

import (
	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// PaymentEvent reports that a payment was taken or refunded.
type PaymentEvent struct {
	// Key is the id of the event, which is applied once.
	Key           string
	ReservationID uuid.UUID
	Payment       reservation.Payment
	// Refunded says that the payment was refunded, for the Cause, by the refund with this id.
	// Otherwise it was taken.
	Refunded bool
	Cause    refund.Cause
	RefundID uuid.UUID
}

// EndsTickets reports whether the event ends the tickets of a claim.
func (e *PaymentEvent) EndsTickets() bool { return e.Refunded && e.Cause.EndsTickets() }
