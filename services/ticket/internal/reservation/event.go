package reservation

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/proto/events"
)

// EventType names what happened to a reservation.
type EventType string

// The types of events that are published.
const (
	EventCreated         EventType = events.ReservationCreated
	EventConfirmed       EventType = events.ReservationConfirmed
	EventCancelled       EventType = events.ReservationCancelled
	EventExpired         EventType = events.ReservationExpired
	EventPaymentRejected EventType = events.ReservationRejected
)

// Event is one thing that happened, with the reservation as it was right after.
type Event struct {
	Type        EventType
	Reservation Reservation
	// Reason is why it happened; empty without one.
	Reason string
	// PaymentID is the payment that confirmed the reservation or was rejected; zero: none.
	PaymentID uuid.UUID
	At        time.Time
}

// TakeEvents returns the events since the reservation was read, and forgets them. They are written
// in the transaction of the change.
func (r *Reservation) TakeEvents() []Event {
	taken := r.events
	r.events = nil
	return taken
}

func (r *Reservation) emit(t EventType, reason string, payment uuid.UUID, now time.Time) {
	seen := *r
	seen.events = nil
	r.events = append(r.events, Event{Type: t, Reservation: seen, Reason: reason, PaymentID: payment, At: now})
}

// rejectUnknown returns the event that rejects a payment whose reservation does not exist. Such a
// payment has to be refunded, as every payment that cannot be honoured.
func rejectUnknown(id uuid.UUID, p Payment, now time.Time) Event {
	return Event{
		Type: EventPaymentRejected, Reason: ReasonUnknown, PaymentID: p.ID, At: now,
		Reservation: Reservation{
			ID: id, EventID: p.EventID, UserID: p.UserID, Amount: p.Amount, Currency: p.Currency, Status: Rejected, Version: 1,
		},
	}
}
