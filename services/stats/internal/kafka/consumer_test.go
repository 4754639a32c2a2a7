package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/wire"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	stats "urr.guru/services/stats/internal/kafka"
)

var noon = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func record(t *testing.T, topic, id string, offset int64, m proto.Message) kafka.Record {
	t.Helper()
	value, err := wire.Marshal(m)
	require.NoError(t, err)
	return kafka.Record{Topic: topic, Partition: 1, Offset: offset, EventID: id, Value: value}
}

func confirmed(quantity int64) *eventsv1.ReservationEvent {
	return &eventsv1.ReservationEvent{
		Type: "RESERVATION_CONFIRMED", EventId: "e", Quantity: quantity, OccurredAt: timestamppb.New(noon),
	}
}

func TestBatchCountsFreshEventsOnce(t *testing.T) {
	t.Parallel()
	recs := []kafka.Record{
		record(t, "reservation-events", "a", 5, confirmed(2)),
		record(t, "reservation-events", "b", 6, confirmed(3)),
		record(t, "reservation-events", "a", 7, confirmed(2)),
		record(t, "reservation-events", "old", 8, confirmed(100)),
	}
	b := stats.BatchOf(recs)
	require.Equal(t, int64(9), b.Next)
	require.Equal(t, []string{"a", "b", "a", "old"}, b.EventIDs)
	d, err := b.Delta(map[string]bool{"a": true, "b": true})
	require.NoError(t, err)
	require.Len(t, d.Days(), 1)
	require.Equal(t, int64(5), d.Counts[d.Days()[0]].SeatsSold)
	require.Equal(t, int64(2), d.Counts[d.Days()[0]].Confirmed)
}

func TestPaymentsBecomeRevenue(t *testing.T) {
	t.Parallel()
	b := stats.BatchOf([]kafka.Record{record(t, "payment-events", "p", 0, &eventsv1.PaymentEvent{
		Type: "PAYMENT_CONFIRMED", EventId: "e", Amount: 110000, Currency: "KRW", OccurredAt: timestamppb.New(noon),
	})})
	d, err := b.Delta(map[string]bool{"p": true})
	require.NoError(t, err)
	require.Equal(t, int64(110000), d.Revenue[d.Monies()[0]].Confirmed)
}

func TestWhatCannotBeReadIsPoison(t *testing.T) {
	t.Parallel()
	tests := map[string]kafka.Record{
		"no JSON":  {Topic: "reservation-events", EventID: "x", Value: []byte("{")},
		"no event": record(t, "reservation-events", "x", 0, &eventsv1.ReservationEvent{Type: "RESERVATION_CREATED", OccurredAt: timestamppb.New(noon)}),
		"no time":  record(t, "payment-events", "x", 0, &eventsv1.PaymentEvent{Type: "PAYMENT_CONFIRMED", EventId: "e"}),
		"a zero byte": record(t, "payment-events", "x", 0, &eventsv1.PaymentEvent{
			Type: "PAYMENT_REFUNDED", EventId: "e\x00", OccurredAt: timestamppb.New(noon),
		}),
		"too long": record(t, "reservation-events", "x", 0, &eventsv1.ReservationEvent{
			Type: "RESERVATION_CREATED", EventId: strings.Repeat("e", 65), OccurredAt: timestamppb.New(noon),
		}),
	}
	for name, rec := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := stats.BatchOf([]kafka.Record{rec}).Delta(map[string]bool{"x": true})
			require.True(t, kafka.IsPoison(err), "got %v", err)
		})
	}
}

// A type that is not counted may lack what the counted ones need.
func TestTypesOfTheFutureArePassedOver(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"reservation-events", "payment-events"} {
		rec := kafka.Record{Topic: topic, EventID: "x", Value: []byte(`{"type":"PLAN_MADE","planId":"p"}`)}
		d, err := stats.BatchOf([]kafka.Record{rec}).Delta(map[string]bool{"x": true})
		require.NoError(t, err)
		require.Empty(t, d.Days())
		require.Empty(t, d.Monies())
	}
}

func TestMembersOfTheFutureAreSkipped(t *testing.T) {
	t.Parallel()
	rec := kafka.Record{
		Topic: "reservation-events", EventID: "x",
		Value: []byte(`{"type":"RESERVATION_CREATED","eventId":"e","occurredAt":"2026-11-21T03:00:00Z","moreToCome":{"a":1}}`),
	}
	d, err := stats.BatchOf([]kafka.Record{rec}).Delta(map[string]bool{"x": true})
	require.NoError(t, err)
	require.Equal(t, int64(1), d.Counts[d.Days()[0]].Created)
}
