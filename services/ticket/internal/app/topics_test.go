package app_test

import (
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/wire"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

const group = "ticket-service-group"

// pay publishes PAYMENT_CONFIRMED for a reservation's amount, and returns the Kafka event's id. The
// payment counts as begun.
func (s *service) pay(r *ticketv1.Reservation, payment string) uuid.UUID {
	s.t.Helper()
	_, err := s.db.Exec(s.t.Context(), `UPDATE reservations SET begun = begun || $2::uuid WHERE reservation_id = $1`, r.GetReservationId(), payment)
	require.NoError(s.t, err)
	return s.publishPaid(r, payment)
}

func (s *service) publishPaid(r *ticketv1.Reservation, payment string) uuid.UUID {
	s.t.Helper()
	return s.publish(&eventsv1.PaymentEvent{
		Type: "PAYMENT_CONFIRMED", PaymentId: payment, OrderId: "order-" + payment, SagaId: payment, ReferenceId: r.GetReservationId(),
		UserId: r.GetUserId(), EventId: r.GetEventId(), Amount: r.GetAmount(), Currency: r.GetCurrency(), Version: 1, OccurredAt: timestamppb.Now(),
	})
}

// claimRefund claims all tickets of a payment for a refund by its user. The call fails if the
// process dies before it answers.
func (s *service) claimRefund(r *ticketv1.Reservation, refund, payment string) (*ticketv1.RefundClaim, error) {
	return s.payables.BeginRefund(s.t.Context(), &ticketv1.BeginRefundRequest{
		RefundId: refund, PaymentId: payment, PaymentType: "reservation", ReferenceId: r.GetReservationId(), Cause: "USER", UserId: r.GetUserId(),
		AskedAt: timestamppb.Now(),
	})
}

// callUntilAnswered repeats a call until the process answers: after a restart of the process, gRPC
// waits before it dials again.
func (s *service) callUntilAnswered(call func() error) {
	s.t.Helper()
	var err error
	testkit.Until(s.t, func() bool {
		err = call()
		return !errors.Is(err, errs.ErrUnavailable)
	}, "the process answers")
	require.NoError(s.t, err)
}

func (s *service) mustClaimRefund(r *ticketv1.Reservation, refund, payment string) {
	s.t.Helper()
	var c *ticketv1.RefundClaim
	s.callUntilAnswered(func() (err error) {
		c, err = s.claimRefund(r, refund, payment)
		return err
	})
	require.Contains(s.t, []string{"BEGUN", "DONE"}, c.GetStatus())
	require.Len(s.t, c.GetItems(), 2)
}

func (s *service) refund(r *ticketv1.Reservation, refund, payment, cause string) uuid.UUID {
	s.t.Helper()
	return s.publish(&eventsv1.PaymentEvent{
		Type: "PAYMENT_REFUNDED", PaymentType: "reservation", PaymentId: payment, OrderId: "order-" + payment, ReferenceId: r.GetReservationId(),
		UserId: r.GetUserId(), EventId: r.GetEventId(), Amount: r.GetAmount(), Currency: r.GetCurrency(), Version: 2, OccurredAt: timestamppb.Now(),
		RefundId: proto.String(refund), Cause: &cause,
	})
}

func (s *service) publish(e *eventsv1.PaymentEvent) uuid.UUID {
	s.t.Helper()
	value, err := wire.Marshal(e)
	require.NoError(s.t, err)
	id := uuid.New()
	s.publishRaw(e.GetOrderId(), value, kafka.EventHeaders(id, "payment", e.GetType(), time.Now()))
	return id
}

func (s *service) publishRaw(key string, value []byte, headers map[string]string) {
	s.t.Helper()
	rec := kafka.Record{Topic: "payment-events", Key: []byte(key), Value: value, Headers: headers}
	require.NoError(s.t, s.producer.Publish(s.t.Context(), rec))
}

// waitUntilProcessed waits until the payment events are stored as processed.
func (s *service) waitUntilProcessed(events ...uuid.UUID) {
	s.t.Helper()
	keys := make([]string, len(events))
	for i, id := range events {
		keys[i] = id.String()
	}
	testkit.Until(s.t, func() bool {
		return s.count(`SELECT count(*) FROM processed_events WHERE event_key = ANY ($1)`, keys) == len(keys)
	}, "the payment events are settled")
}

// published waits until the outbox has no events of a reservation. It returns the types of its
// events in the topic, in order and without repetitions.
func (s *service) published(r *ticketv1.Reservation) []string {
	s.t.Helper()
	testkit.Until(s.t, func() bool { return s.count(`SELECT count(*) FROM outbox WHERE key = $1`, r.GetReservationId()) == 0 },
		"the events leave the outbox")
	var types []string
	seen := make(map[string]bool)
	for _, rec := range s.readTopic("reservation-events") {
		if string(rec.Key) == r.GetReservationId() && !seen[rec.EventID] {
			seen[rec.EventID] = true
			types = append(types, rec.Type)
		}
	}
	return types
}

// readTopic reads a topic from its beginning to its present end.
func (s *service) readTopic(topic string) []kafka.Record {
	s.t.Helper()
	return kafkatest.ReadAll(s.t, s.kafka.TopicPrefix+topic)
}
