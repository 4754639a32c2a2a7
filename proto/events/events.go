// Package events names what travels over Kafka: the topics of domain events, and the types of the
// events in them. Their members are those of urr/events/v1/events.proto.
//
// A topic is made by the `migrate` command of the service that publishes to it, and by nobody else;
// who consumes it waits until it is there.
package events

// Reservations is ticket's topic, with these types; the key is the reservation's id.
const (
	Reservations = "reservation-events"

	ReservationCreated   = "RESERVATION_CREATED"
	ReservationConfirmed = "RESERVATION_CONFIRMED"
	ReservationCancelled = "RESERVATION_CANCELLED"
	ReservationExpired   = "RESERVATION_EXPIRED"
	ReservationRejected  = "RESERVATION_REJECTED"
)

// Payments is payment's topic, with these types; the key is the order's id.
const (
	Payments = "payment-events"

	PaymentConfirmed = "PAYMENT_CONFIRMED"
	PaymentRefunded  = "PAYMENT_REFUNDED"
)
