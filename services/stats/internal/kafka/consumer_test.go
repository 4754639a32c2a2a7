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

// delta returns what a record adds to the figures.
func delta(rec kafka.Record) (d figures.Delta, err error) {
	err = stats.ToRecords([]kafka.Record{rec})[0].AddTo(&d)
	return d, err
}

func TestAddTo(t *testing.T) {
	t.Parallel()
	type sums = map[figures.ID]int64
	id := func(figure figures.Figure) figures.ID { return figures.ID{Figure: figure} }
	for name, tt := range map[string]struct {
		rec   kafka.Record
		event string
		want  sums
	}{
		"a reservation with a member that this code does not know": {
			rec: kafka.Record{
				Topic: "reservation-events", EventID: "a",
				Value: []byte(`{"type":"RESERVATION_CREATED","eventId":"e","occurredAt":"2026-11-21T03:00:00Z","moreToCome":{"a":1}}`),
			},
			event: "e", want: sums{id(figures.Created): 1},
		},
		"a refunded reservation": {
			rec: record(t, "reservation-events", "r", 0, &eventsv1.ReservationEvent{
				Type: "RESERVATION_CANCELLED", EventId: "e", Reason: proto.String("REFUNDED"), Status: "CONFIRMED", Quantity: 3, Fee: 9, Currency: "KRW",
				OccurredAt: timestamppb.New(noon),
			}),
			event: "e", want: sums{id(figures.SeatsSold): -3, {Figure: figures.FeeRefund, Currency: "KRW"}: 9},
		},
		"a voided comp": {
			rec: record(t, "reservation-events", "r", 0, &eventsv1.ReservationEvent{
				Type: "TICKETS_VOIDED", EventId: "e", Origin: "COMP", Status: "VOIDED", Quantity: 2, OccurredAt: timestamppb.New(noon),
			}),
			event: "e", want: sums{id(figures.Comps): -2, id(figures.Voided): 2},
		},
		"a payment": {
			rec: record(t, "payment-events", "p", 0, &eventsv1.PaymentEvent{
				Type: "PAYMENT_CONFIRMED", EventId: "e", Amount: 7, Currency: "KRW", OccurredAt: timestamppb.New(noon),
			}),
			event: "e", want: sums{{Figure: figures.Sale, Currency: "KRW"}: 7},
		},
		"a refund": {
			rec: record(t, "payment-events", "p", 0, &eventsv1.PaymentEvent{
				Type: "PAYMENT_REFUNDED", EventId: "e", PaymentType: "transfer", Cause: proto.String("USER"), Amount: 7, Currency: "KRW", OccurredAt: timestamppb.New(noon),
			}),
			event: "e", want: sums{{Figure: figures.TransferRefund, Currency: "KRW"}: 7},
		},
		"a payment for a membership": {
			rec: record(t, "payment-events", "p", 0, &eventsv1.PaymentEvent{
				Type: "PAYMENT_CONFIRMED", PaymentType: "membership", Amount: 7, Currency: "KRW", OccurredAt: timestamppb.New(noon),
			}),
			event: "", want: sums{{Figure: figures.Membership, Currency: "KRW"}: 7},
		},
		"a transfer": {
			rec: record(t, "transfer-events", "t", 0, &eventsv1.TransferEvent{
				Type: "TRANSFER_COMPLETED", EventId: "e", Price: 60, Currency: "KRW", OccurredAt: timestamppb.New(noon),
			}),
			event: "e", want: sums{id(figures.TransfersCompleted): 1},
		},
		"a membership": {
			rec: record(t, "membership-events", "m", 0, &eventsv1.MembershipEvent{
				Type: "MEMBERSHIP_ACTIVATED", PlanId: "p", Price: 60, Currency: "KRW", OccurredAt: timestamppb.New(noon),
			}),
			event: "", want: sums{id(figures.MembershipsActivated): 1},
		},
		"a reward": {
			rec: record(t, "reward-events", "r", 0, &eventsv1.RewardEvent{
				Type: "REWARD_PAID", EventId: "e", RewardKind: "POINT", Value: 500, OccurredAt: timestamppb.New(noon),
			}),
			event: "e", want: sums{id(figures.RewardsPaid): 1, id(figures.PointsPaid): 500},
		},
		"a request": {
			rec: record(t, "request-events", "q", 0, &eventsv1.RequestEvent{
				Type: "REQUEST_REJECTED", EventId: "e", Status: "REJECTED", ResultCode: "REJECTED_CAPACITY", OccurredAt: timestamppb.New(noon),
			}),
			event: "e", want: sums{id(figures.RequestsRejected): 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := delta(tt.rec)
			require.NoError(t, err)
			got := sums{}
			for k, sum := range d {
				require.Equal(t, []any{tt.event, noon}, []any{k.EventID, k.Minute})
				require.EqualValues(t, 1, sum.Times)
				got[figures.ID{Figure: k.Figure, Currency: k.Currency}] = sum.Amount
			}
			require.Empty(t, cmp.Diff(tt.want, got))
		})
	}
}

func TestToRecords(t *testing.T) {
	t.Parallel()
	rec := kafka.Record{Topic: "reservation-events", ReadFrom: "reservation-events", Partition: 1, Offset: 5, EventID: "a", Time: noon}
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
		"a transfer of no event":  record(t, "transfer-events", "x", 0, &eventsv1.TransferEvent{Type: "TRANSFER_REJECTED", OccurredAt: timestamppb.New(noon)}),
		"a membership at no time": record(t, "membership-events", "x", 0, &eventsv1.MembershipEvent{Type: "MEMBERSHIP_ENDED"}),
		"a sale of no event":      record(t, "payment-events", "x", 0, &eventsv1.PaymentEvent{Type: "PAYMENT_CONFIRMED", OccurredAt: timestamppb.New(noon)}),
		"a request at no time":    record(t, "request-events", "x", 0, &eventsv1.RequestEvent{Type: "REQUEST_FAILED", EventId: "e"}),
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

// A Kafka event whose type is not counted may lack fields that counted types require.
func TestUnknownTypesAreSkipped(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"reservation-events", "payment-events", "transfer-events", "membership-events", "reward-events", "request-events"} {
		rec := kafka.Record{Topic: topic, EventID: "x", Value: []byte(`{"type":"PLAN_MADE","planId":"p"}`)}
		d, err := delta(rec)
		require.NoError(t, err)
		require.Empty(t, d)
	}
}
