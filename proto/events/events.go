// Package events names the Kafka topics of domain events and their event types. The payloads are
// defined in urr/events/v1/events.proto.
//
// A topic is created by the `migrate` command of the service that publishes to it, and by no other;
// consumers wait until it exists.
package events

import (
	"slices"
	"sync"
)

// Reservations is the ticket service's topic, with these types; the key is the reservation's id.
const (
	Reservations = "reservation-events"

	ReservationCreated   = "RESERVATION_CREATED"
	ReservationConfirmed = "RESERVATION_CONFIRMED"
	ReservationCancelled = "RESERVATION_CANCELLED"
	ReservationExpired   = "RESERVATION_EXPIRED"
	ReservationRejected  = "RESERVATION_REJECTED"
	// TicketsRefundDue is about tickets of a cancelled event that the payment service has to refund.
	TicketsRefundDue = "TICKETS_REFUND_DUE"
	// TicketsVoided is about tickets that an operator has ended, without giving money back.
	TicketsVoided = "TICKETS_VOIDED"
	// TicketsCheckedIn counts tickets that were used, or made valid again; the key is the event's id.
	TicketsCheckedIn = "TICKETS_CHECKED_IN"
)

// Payments is the payment service's topic, with these types; the key is the order's id.
const (
	Payments = "payment-events"

	PaymentConfirmed = "PAYMENT_CONFIRMED"
	PaymentDeclined  = "PAYMENT_DECLINED"
	PaymentRefunded  = "PAYMENT_REFUNDED"
	// PaymentDisputed: the payer disputes the charge at the bank, until PaymentDisputeClosed.
	PaymentDisputed      = "PAYMENT_DISPUTED"
	PaymentDisputeClosed = "PAYMENT_DISPUTE_CLOSED"
)

// Transfers is the ticket service's topic of tickets that pass from one user to another, with these
// types; the key is the transfer's id.
const (
	Transfers = "transfer-events"

	TransferCompleted = "TRANSFER_COMPLETED"
	TransferCancelled = "TRANSFER_CANCELLED"
	TransferRejected  = "TRANSFER_REJECTED"
)

// Memberships is the ticket service's topic of memberships; the key is the membership's id.
const (
	Memberships = "membership-events"

	MembershipActivated = "MEMBERSHIP_ACTIVATED"
	MembershipRejected  = "MEMBERSHIP_REJECTED"
	MembershipEnded     = "MEMBERSHIP_ENDED"
)

// Rewards is the reward service's topic, with these types; the key is the allocation's id.
const (
	Rewards = "reward-events"

	// RewardEntered is about an entry of a campaign, whether or not it earned a reward; the key is the
	// entry's id.
	RewardEntered   = "REWARD_ENTERED"
	RewardPaid      = "REWARD_PAID"
	RewardFailed    = "REWARD_FAILED"
	RewardCancelled = "REWARD_CANCELLED"
)

// Requests is the topic of requests to promotions, with these types; the key is the request's id.
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

// Topic is a topic of domain events.
type Topic struct {
	Name string
	// Key is the field of the payload that is the key of a record.
	Key string
	// Producer is the only service that publishes to the topic, Consumers are those that read it, sorted.
	Producer  string
	Consumers []string
	Types     []string
}

// Group returns the consumer group of a service.
func Group(service string) string { return service + "-service-group" }

// All returns all topics. The table in proto/README.md is checked against it.
func All() []Topic {
	return []Topic{
		{
			Payments, "orderId", "payment", []string{"stats", "ticket"},
			[]string{PaymentConfirmed, PaymentDeclined, PaymentRefunded, PaymentDisputed, PaymentDisputeClosed},
		},
		{
			Reservations, "reservationId", "ticket", []string{"payment", "queue", "stats"},
			[]string{
				ReservationCreated, ReservationConfirmed, ReservationCancelled, ReservationExpired, ReservationRejected, TicketsRefundDue,
				TicketsVoided, TicketsCheckedIn,
			},
		},
		{Transfers, "transferId", "ticket", []string{"payment", "stats"}, []string{TransferCompleted, TransferCancelled, TransferRejected}},
		{Memberships, "membershipId", "ticket", []string{"payment", "stats"}, []string{MembershipActivated, MembershipRejected, MembershipEnded}},
		{Rewards, "allocationId", "reward", []string{"stats"}, []string{RewardEntered, RewardPaid, RewardFailed, RewardCancelled}},
		{Requests, "requestId", "worker", []string{"reward", "stats"}, []string{RequestSucceeded, RequestRejected, RequestFailed}},
		{Audit, "userId", "gateway", []string{"stats"}, []string{OperatorActed, OperatorActEnded}},
	}
}

// Writer returns the only service whose records in a topic count; "" for an unknown topic.
func Writer(topic string) string { return writers()[topic] }

// writers is read for every record that is consumed.
var writers = sync.OnceValue(func() map[string]string {
	producers := map[string]string{}
	for _, t := range All() {
		producers[t.Name] = t.Producer
	}
	return producers
})

// Consumers returns the services that consume a topic, sorted; none for an unknown topic.
func Consumers(topic string) []string {
	for _, t := range All() {
		if t.Name == topic {
			return t.Consumers
		}
	}
	return nil
}

// Topics returns the names of all topics.
func Topics() (names []string) {
	for _, t := range All() {
		names = append(names, t.Name)
	}
	return names
}

// ConsumedBy returns the topics that a service consumes.
func ConsumedBy(service string) []string {
	return slices.DeleteFunc(Topics(), func(topic string) bool { return !slices.Contains(Consumers(topic), service) })
}
