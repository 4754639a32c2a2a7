package reservation

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
)

// Decide changes a locked reservation at the database's time, or returns why it stays as it is. The
// store writes what was changed and the events, in the transaction that has locked it.
type Decide func(r *Reservation, now time.Time) error

// cancelled ends a user's own hold; eventID, unless empty, must be its event.
func cancelled(userID, eventID string) Decide {
	return func(r *Reservation, now time.Time) error {
		switch {
		case r.UserID != userID:
			return ErrNotFound
		case eventID != "" && r.EventID != eventID:
			return event.ErrWrongEvent
		default:
			return r.Cancel(now)
		}
	}
}

// paymentBegun reserves time for a payment.
func paymentBegun(payment uuid.UUID, extension time.Duration) Decide {
	return func(r *Reservation, now time.Time) error { return r.BeginPayment(payment, now, extension) }
}

// paymentAborted undoes paymentBegun after a payment that was definitely declined.
func paymentAborted(payment uuid.UUID, extension time.Duration) Decide {
	return func(r *Reservation, now time.Time) error {
		r.AbortPayment(payment, now, extension)
		return nil
	}
}
