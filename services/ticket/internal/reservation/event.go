package reservation

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/proto/events"
)

// EventType is the type of a Kafka event about a reservation.
type EventType string

// The types of Kafka events about reservations.
const (
	EventCreated         EventType = events.ReservationCreated
	EventConfirmed       EventType = events.ReservationConfirmed
	EventCancelled       EventType = events.ReservationCancelled
	EventExpired         EventType = events.ReservationExpired
	EventPaymentRejected EventType = events.ReservationRejected
	EventRefundDue       EventType = events.TicketsRefundDue
	EventVoided          EventType = events.TicketsVoided
)

// Event is a Kafka event about a change of a reservation. Reservation has its new state.
type Event struct {
	Type        EventType
	Reservation Reservation
	// Reason is one of the constants such as ReasonUser; empty: none.
	Reason string
	// PaymentID is the payment that confirmed the reservation or was rejected; zero: none.
	PaymentID uuid.UUID
	At        time.Time
	// Due is set for EventRefundDue only.
	Due DueRefund
}

// DueRefund is a refund that the payment service has to make because the event is cancelled.
type DueRefund struct {
	// ClaimID is the id of the claim (refund.Claim), and becomes the id of the refund.
	ClaimID, PaymentID uuid.UUID
	Cause              string
	Items              []DueItem
}

// DueItem is a ticket, and the amount to give back for it, in the currency's minor unit.
type DueItem struct {
	TicketID uuid.UUID
	Amount   int64
}

// OweRefund adds the Kafka event that makes the payment service refund tickets of the reservation.
func (r *Reservation) OweRefund(due DueRefund, now time.Time) {
	r.Version++
	r.emit(EventRefundDue, "", due.PaymentID, now)
	r.events[len(r.events)-1].Due = due
}

// TakeEvents returns and removes the Kafka events that were added since the reservation was read.
// The transaction of the change must write them to the outbox.
func (r *Reservation) TakeEvents() []Event {
	taken := r.events
	r.events = nil
	return taken
}

func (r *Reservation) emit(t EventType, reason string, payment uuid.UUID, now time.Time) {
	r.emitWith(*r, t, reason, payment, now)
}

// emitWith adds a Kafka event with this content, which may differ from the reservation itself.
func (r *Reservation) emitWith(content Reservation, t EventType, reason string, payment uuid.UUID, now time.Time) {
	content.events, content.returned = nil, nil
	r.events = append(r.events, Event{Type: t, Reservation: content, Reason: reason, PaymentID: payment, At: now})
}
