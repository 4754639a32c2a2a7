package reservation

import (
	"time"

	"github.com/google/uuid"
)

// PaymentEvent says that a payment was taken or refunded.
type PaymentEvent struct {
	// Key is the event's own id: a repeated one is not applied again.
	Key           string
	ReservationID uuid.UUID
	Payment       Payment
	// Version of the payment after the event.
	Version int64
	// Refunded: the payment was refunded for the Cause, else it was taken.
	Refunded bool
	Cause    Cause
}

// Settlement is what payment events are applied to: the reservations that they name, whose rows are
// locked.
type Settlement struct {
	// Find returns a reservation, nil when it does not exist.
	Find func(id uuid.UUID) *Reservation
	// Refunds are the payments that are known to be refunded: the payment's version after the
	// refund, by its id.
	Refunds map[uuid.UUID]int64
	Now     time.Time
}

// Apply changes the reservations in the order of the events. It returns the events of payments
// whose reservation does not exist; those of the others are with their reservations.
//
// A confirmation that is delivered after the refund of its payment (it was in the dead-letter topic
// meanwhile) confirms nothing. The order of other events of one payment does not matter.
func (s *Settlement) Apply(events []PaymentEvent) (rejected []Event) {
	for _, e := range events {
		if e.Refunded {
			s.Refunds[e.Payment.ID] = max(s.Refunds[e.Payment.ID], e.Version)
		} else {
			e.Payment.AlreadyRefunded = e.Version < s.Refunds[e.Payment.ID]
		}
		switch r := s.Find(e.ReservationID); {
		case r == nil && !e.Refunded:
			rejected = append(rejected, rejectUnknown(e.ReservationID, e.Payment, s.Now))
		case r == nil: // the payment was rejected before
		case e.Refunded:
			r.Refund(e.Payment.ID, e.Cause, s.Now)
		default:
			r.Paid(e.Payment, s.Now)
		}
	}
	return rejected
}
