package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/wire"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/queue/internal/kafka"
	"urr.guru/services/queue/internal/line"
)

// recordingSlots records its calls. The first calls fail, as if Redis were away.
type recordingSlots struct {
	mu           sync.Mutex
	failuresLeft int
	calls        []string
	recorded     chan struct{}
}

func (s *recordingSlots) record(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failuresLeft > 0 {
		s.failuresLeft--
		return errs.ErrUnavailable
	}
	s.calls = append(s.calls, call)
	s.recorded <- struct{}{}
	return nil
}

func (s *recordingSlots) RecordHold(_ context.Context, eventID string, h line.SeatHold) error {
	until := int64(0)
	if !h.Until.IsZero() {
		until = h.Until.Unix()
	}
	return s.record(fmt.Sprint("held ", eventID, " ", h.UserID, " ", h.SlotID, " ", h.ReservationID, " ", until))
}

func (s *recordingSlots) RecordPurchase(_ context.Context, eventID, userID, slotID string) error {
	return s.record(fmt.Sprint("purchased ", eventID, " ", userID, " ", slotID))
}

func TestReservationsReachTheirSlots(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	cfg := kafkatest.Config(t)
	producer := kafkatest.ProducerOf(t, cfg)
	until := time.Unix(2_000_000_000, 0)
	send := func(value []byte) {
		require.NoError(t, producer.Publish(t.Context(), pkgkafka.Record{Topic: topic, Key: []byte("r"), Value: value}))
	}
	event := func(kind, slot string) {
		value, err := wire.Marshal(&eventsv1.ReservationEvent{
			Type: kind, ReservationId: "r", EventId: "ev", UserId: "u", SlotId: slot, ExpiresAt: timestamppb.New(until),
		})
		require.NoError(t, err)
		send(value)
	}
	event("RESERVATION_CREATED", "s1")
	event("RESERVATION_CREATED", "") // an operator's reservation has no slot
	event("RESERVATION_CANCELLED", "s1")
	event("RESERVATION_EXPIRED", "s1")
	event("RESERVATION_REJECTED", "s1")
	send([]byte("{")) // becomes a dead letter, and does not block other events
	event("RESERVATION_CONFIRMED", "s1")

	s := &recordingSlots{failuresLeft: 2, recorded: make(chan struct{}, 10)} // as if Redis were away
	consumer, err := pkgkafka.NewConsumer(cfg, kafkatest.Name("group"), []string{topic}, kafka.Handler(s), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- consumer.Run(ctx) }()
	for range 5 {
		testkit.Receive(t, s.recorded, "the events")
	}
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, []string{"held ev u s1 r 2000000000", "held ev u s1 r 0", "held ev u s1 r 0", "held ev u s1 r 0", "purchased ev u s1"}, s.calls)
}
