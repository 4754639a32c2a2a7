package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/wire"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/figures"
	stats "urr.guru/services/stats/internal/kafka"
)

var noon = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func record(t *testing.T, topic, id string, offset int64, m proto.Message) kafka.Record {
	t.Helper()
	value, err := wire.Marshal(m)
	require.NoError(t, err)
	return kafka.Record{Topic: topic, Partition: 1, Offset: offset, EventID: id, Value: value}
}

func TestMembersAreTakenOver(t *testing.T) {
	t.Parallel()
	reservation := stats.ToReservation(&eventsv1.ReservationEvent{
		Type: "RESERVATION_CANCELLED", EventId: "e", Reason: proto.String("REFUNDED"), Quantity: 3, OccurredAt: timestamppb.New(noon),
	})
	require.Empty(t, cmp.Diff(figures.Reservation{
		Type: events.ReservationCancelled, EventID: "e", Reason: figures.ReasonRefunded, Quantity: 3, At: noon,
	}, reservation))
	payment := stats.ToPayment(&eventsv1.PaymentEvent{
		Type: "PAYMENT_REFUNDED", PaymentType: "transfer", EventId: "e", Cause: proto.String("TRANSFER"), Amount: 110000, Currency: "KRW",
		OccurredAt: timestamppb.New(noon),
	})
	require.Empty(t, cmp.Diff(figures.Payment{
		Type: events.PaymentRefunded, PaymentType: figures.PaymentTransfer, EventID: "e", Cause: figures.CauseTransfer, Amount: 110000,
		Currency: "KRW", At: noon,
	}, payment))
}

// created is a record that counts one.
func created(id string, offset int64) kafka.Record {
	return kafka.Record{
		Topic: "reservation-events", Partition: 1, Offset: offset, EventID: id,
		// With a member that this code does not know yet.
		Value: []byte(`{"type":"RESERVATION_CREATED","eventId":"e","occurredAt":"2026-11-21T03:00:00Z","moreToCome":{"a":1}}`),
	}
}

func TestABatchIsTheFreshRecordsOnce(t *testing.T) {
	t.Parallel()
	paid := record(t, "payment-events", "p", 0, &eventsv1.PaymentEvent{
		Type: "PAYMENT_CONFIRMED", EventId: "e", Amount: 7, Currency: "KRW", OccurredAt: timestamppb.New(noon),
	})
	for name, tt := range map[string]struct {
		recs              []kafka.Record
		want              figures.Batch
		created, payments int64
	}{
		"repeated and old ones": {
			recs: []kafka.Record{created("a", 5), created("b", 6), created("a", 7), created("old", 8)},
			want: figures.Batch{Topic: "reservation-events", Partition: 1, Next: 9, EventIDs: []string{"a", "b", "a", "old"}}, created: 2,
		},
		"payments": {
			recs: []kafka.Record{paid}, want: figures.Batch{Topic: "payment-events", Partition: 1, Next: 1, EventIDs: []string{"p"}}, payments: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := stats.BatchOf(tt.recs)
			require.Empty(t, cmp.Diff(tt.want, got, cmpopts.IgnoreFields(figures.Batch{}, "Delta")))
			d, err := got.Delta(map[string]bool{"a": true, "b": true, "p": true})
			require.NoError(t, err)
			var counted, paid int64
			for _, c := range d.Counts {
				counted += c.Created
			}
			for _, r := range d.Revenue {
				paid += r.Payments
			}
			require.Equal(t, []int64{tt.created, tt.payments}, []int64{counted, paid})
		})
	}
}

func TestABatchTellsWhatIsOld(t *testing.T) {
	t.Parallel()
	recs := []kafka.Record{created("old", 5), created("new", 6), created("older", 7), created("old", 8)}
	for i, at := range []time.Time{noon.Add(-time.Nanosecond), noon, noon.AddDate(-1, 0, 0), noon.Add(-time.Nanosecond)} {
		recs[i].Time = at
	}
	require.Empty(t, cmp.Diff(map[string]int64{"old": 5, "older": 7}, stats.BatchSince(recs, noon).Old))
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
