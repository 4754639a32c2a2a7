// Package events names the Kafka topics of domain events and their event types. The payloads are
// defined in urr/events/v1/events.proto.
//
// A topic is created by the `migrate` command of the service that publishes to it, and by no other;
// consumers wait until it exists.
package events

// Reservations is ticket's topic, with these types; the key is the reservation's id.
const (
	Reservations = "reservation-events"

	ReservationCreated   = "RESERVATION_CREATED"
	ReservationConfirmed = "RESERVATION_CONFIRMED"
	ReservationCancelled = "RESERVATION_CANCELLED"
	ReservationExpired   = "RESERVATION_EXPIRED"
	ReservationRejected  = "RESERVATION_REJECTED"
	// TicketsRefundDue is about tickets of a cancelled event that payment has to refund.
	TicketsRefundDue = "TICKETS_REFUND_DUE"
)

// Payments is payment's topic, with these types; the key is the order's id.
const (
	Payments = "payment-events"

	PaymentConfirmed = "PAYMENT_CONFIRMED"
	PaymentRefunded  = "PAYMENT_REFUNDED"
)

// Rewards is reward's topic, with these types; the key is the allocation's id.
const (
	Rewards = "reward-events"

	RewardPaid      = "REWARD_PAID"
	RewardFailed    = "REWARD_FAILED"
	RewardCancelled = "REWARD_CANCELLED"
)

// Requests is the topic of event requests, with these types; the key is the request's id.
const (
	Requests = "request-events"

	RequestSucceeded = "REQUEST_SUCCEEDED"
	RequestRejected  = "REQUEST_REJECTED"
	RequestFailed    = "REQUEST_FAILED"
)

// Audit is the gateway's topic of operators' acts, with these types; the key is the operator's user id.
const (
	Audit = "audit-events"

	OperatorActed    = "OPERATOR_ACTED"
	OperatorActEnded = "OPERATOR_ACT_ENDED"
)
