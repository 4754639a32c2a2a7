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

func TestConversion(t *testing.T) {
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
	reward := stats.ToReward(&eventsv1.RewardEvent{
		Type: "REWARD_PAID", EventId: "c", RewardKind: "POINT", Value: 500, Status: "SUCCESS", OccurredAt: timestamppb.New(noon),
	})
	require.Empty(t, cmp.Diff(figures.Reward{
		Type: events.RewardPaid, EventID: "c", Kind: figures.KindPoint, Value: 500, At: noon,
	}, reward))
}

// delta is what a record adds.
func delta(rec kafka.Record) (d figures.Delta, err error) {
	err = stats.ToRecords([]kafka.Record{rec})[0].AddTo(&d)
	return d, err
}

func TestAddTo(t *testing.T) {
	t.Parallel()
	day := figures.Day{EventID: "e", Date: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
	for name, tt := range map[string]struct {
		rec  kafka.Record
		want figures.Delta
	}{
		"a reservation with a member that this code does not know": {
			rec: kafka.Record{
				Topic: "reservation-events", EventID: "a",
				Value: []byte(`{"type":"RESERVATION_CREATED","eventId":"e","occurredAt":"2026-11-21T03:00:00Z","moreToCome":{"a":1}}`),
			},
			want: figures.Delta{Counts: map[figures.Day]figures.Counts{day: {Created: 1}}},
		},
		"a payment": {
			rec: record(t, "payment-events", "p", 0, &eventsv1.PaymentEvent{
				Type: "PAYMENT_CONFIRMED", EventId: "e", Amount: 7, Currency: "KRW", OccurredAt: timestamppb.New(noon),
			}),
			want: figures.Delta{Revenue: map[figures.RevenueKey]figures.Revenue{{Day: day, Currency: "KRW"}: {Confirmed: 7, Payments: 1}}},
		},
		"a reward": {
			rec: record(t, "reward-events", "r", 0, &eventsv1.RewardEvent{
				Type: "REWARD_PAID", EventId: "e", RewardKind: "POINT", Value: 500, OccurredAt: timestamppb.New(noon),
			}),
			want: figures.Delta{Rewards: map[figures.Day]figures.RewardCounts{day: {Paid: 1, PointsPaid: 500}}},
		},
		"a request": {
			rec: record(t, "request-events", "q", 0, &eventsv1.RequestEvent{
				Type: "REQUEST_REJECTED", EventId: "e", Status: "REJECTED", ResultCode: "REJECTED_CAPACITY", OccurredAt: timestamppb.New(noon),
			}),
			want: figures.Delta{Requests: map[figures.Day]figures.RequestCounts{day: {Rejected: 1}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := delta(tt.rec)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(tt.want, got))
		})
	}
}

func TestToRecords(t *testing.T) {
	t.Parallel()
	rec := kafka.Record{Topic: "reservation-events", Partition: 1, Offset: 5, EventID: "a", Time: noon}
	got := stats.ToRecords([]kafka.Record{rec})
	require.Empty(t, cmp.Diff([]figures.Record{{EventID: "a", Offset: 5, Time: noon}}, got, cmpopts.IgnoreFields(figures.Record{}, "AddTo")))
}

func TestUnreadableRecordsArePoison(t *testing.T) {
	t.Parallel()
	tests := map[string]kafka.Record{
		"no JSON":  {Topic: "reservation-events", EventID: "x", Value: []byte("{")},
		"no event": record(t, "reservation-events", "x", 0, &eventsv1.ReservationEvent{Type: "RESERVATION_CREATED", OccurredAt: timestamppb.New(noon)}),
		"no time":  record(t, "payment-events", "x", 0, &eventsv1.PaymentEvent{Type: "PAYMENT_CONFIRMED", EventId: "e"}),
		"a zero byte": record(t, "payment-events", "x", 0, &eventsv1.PaymentEvent{
			Type: "PAYMENT_REFUNDED", EventId: "e\x00", OccurredAt: timestamppb.New(noon),
		}),
		"a reward without a campaign": record(t, "reward-events", "x", 0, &eventsv1.RewardEvent{
			Type: "REWARD_PAID", OccurredAt: timestamppb.New(noon),
		}),
		"a request at no time": record(t, "request-events", "x", 0, &eventsv1.RequestEvent{Type: "REQUEST_FAILED", EventId: "e"}),
		"too long": record(t, "reservation-events", "x", 0, &eventsv1.ReservationEvent{
			Type: "RESERVATION_CREATED", EventId: strings.Repeat("e", 65), OccurredAt: timestamppb.New(noon),
		}),
	}
	for name, rec := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := delta(rec)
			require.True(t, kafka.IsPoison(err), "got %v", err)
		})
	}
}

// A type that is not counted may lack what the counted ones need.
func TestUnknownTypesAreSkipped(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"reservation-events", "payment-events", "reward-events", "request-events"} {
		rec := kafka.Record{Topic: topic, EventID: "x", Value: []byte(`{"type":"PLAN_MADE","planId":"p"}`)}
		d, err := delta(rec)
		require.NoError(t, err)
		require.Empty(t, figures.Days(d.Counts))
		require.Empty(t, figures.RevenueKeys(d.Revenue))
		require.Empty(t, figures.Days(d.Rewards))
		require.Empty(t, figures.Days(d.Requests))
	}
}
