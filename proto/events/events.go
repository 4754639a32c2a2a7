// Package events names the Kafka topics of domain events and their event types. The payloads are
// defined in urr/events/v1/events.proto.
//
// A topic is created by the `migrate` command of the service that publishes to it, and by no other;
// consumers wait until it exists.
package events

import "slices"

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
	// PaymentDisputed: the payer disputes the charge at the bank, until PaymentDisputeClosed.
	PaymentDisputed      = "PAYMENT_DISPUTED"
	PaymentDisputeClosed = "PAYMENT_DISPUTE_CLOSED"
)

// Transfers is ticket's topic of tickets that pass from one user to another, with these types; the
// key is the transfer's id.
const (
	Transfers = "transfer-events"

	TransferCompleted = "TRANSFER_COMPLETED"
	TransferCancelled = "TRANSFER_CANCELLED"
	TransferRejected  = "TRANSFER_REJECTED"
)

// Memberships is ticket's topic of memberships, with these types; the key is the membership's id.
const (
	Memberships = "membership-events"

	MembershipActivated = "MEMBERSHIP_ACTIVATED"
	MembershipRejected  = "MEMBERSHIP_REJECTED"
	MembershipEnded     = "MEMBERSHIP_ENDED"
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

// Consumers returns the services that consume a topic, sorted; none for what is no topic. The
// consumer group of a service is named after it.
func Consumers(topic string) []string {
	switch topic {
	case Reservations:
		return []string{"payment", "queue", "stats"}
	case Payments:
		return []string{"stats", "ticket"}
	case Transfers, Memberships:
		return []string{"payment", "stats"}
	case Requests:
		return []string{"reward", "stats"}
	case Rewards, Audit:
		return []string{"stats"}
	default:
		return nil
	}
}

// Topics returns all topics.
func Topics() []string { return []string{Payments, Reservations, Transfers, Memberships, Rewards, Requests, Audit} }

// ConsumedBy returns the topics that a service consumes.
func ConsumedBy(service string) []string {
	return slices.DeleteFunc(Topics(), func(topic string) bool { return !slices.Contains(Consumers(topic), service) })
}
