package reservation

import (
	"time"

	"github.com/google/uuid"
)

// PaymentEvent reports that a payment was taken or refunded.
type PaymentEvent struct {
	// Key is the id of the event, which is applied once.
	Key           string
	ReservationID uuid.UUID
	Payment       Payment
	// Version of the payment after the event.
	Version int64
	// Refunded says that the payment was refunded, for the Cause. Otherwise it was taken.
	Refunded bool
	Cause    Cause
}

// Settlement applies payment events to reservations whose rows are locked.
type Settlement struct {
	// Find returns a reservation, nil when it does not exist.
	Find func(id uuid.UUID) *Reservation
	// Refunds has, by payment id, the version of each refunded payment after its refund.
	Refunds map[uuid.UUID]int64
	Now     time.Time
}

// Apply changes the reservations in the order of the events. It returns the events of payments
// whose reservation does not exist; the reservations have the other events.
//
// A confirmation may be delivered after the refund of its payment, if it was in the dead-letter
// topic in the meantime: it confirms nothing. The order of other events of one payment does not
// matter.
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
		case r == nil: // its confirmation was rejected
		case e.Refunded:
			r.Refund(e.Payment.ID, e.Cause, s.Now)
		default:
			r.Settle(e.Payment, s.Now)
		}
	}
	return rejected
}
