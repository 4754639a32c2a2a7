// Package kafka counts the events of the topics of reservations, payments, transfers, memberships,
// rewards and requests, and stores the acts of operators.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/ids"
	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/figures"
)

const batchSize = 1000 // records in one transaction; more were not faster in measurements

// RecordCounter counts consecutive records of one partition, each event once.
type RecordCounter interface {
	Count(ctx context.Context, topic string, partition int32, records []figures.Record) error
}

var _ RecordCounter = (*figures.Service)(nil)

// OffsetStore reads and saves, for each partition, the offset after the last record whose effect is
// in the database.
type OffsetStore interface {
	Offsets(ctx context.Context, topic string) (map[int32]int64, error)
	SaveOffset(ctx context.Context, topic string, partition int32, next int64) error
}

// positions adapts OffsetStore to the interface by which the consumer finds where to start.
type positions struct{ offsets OffsetStore }

var _ kafka.Positions = positions{}

func (p positions) Load(ctx context.Context, topic string) (kafka.Offsets, error) {
	return p.offsets.Offsets(ctx, topic)
}

func (p positions) Save(ctx context.Context, topic string, partition int32, next int64) error {
	return p.offsets.SaveOffset(ctx, topic, partition, next)
}

// NewConsumer makes the consumer of all topics. It passes the records of the topic of operators'
// acts to keeper and all others to counter, and starts each partition at its stored offset. The
// topic of a service that is not installed is consumed as soon as it exists.
func NewConsumer(cfg kafka.Config, counter RecordCounter, keeper ActKeeper, offsets OffsetStore, log *slog.Logger) (*kafka.Consumer, error) {
	handle := func(ctx context.Context, recs []kafka.Record) error { // recs are of one partition
		if recs[0].Topic == events.Audit {
			if err := keepActs(ctx, keeper, recs); err != nil {
				return err
			}
			last := recs[len(recs)-1] // saved after its act, so that the offset is never ahead of the acts
			return offsets.SaveOffset(ctx, last.ReadFrom, last.Partition, last.Offset+1)
		}
		return counter.Count(ctx, recs[0].ReadFrom, recs[0].Partition, toRecords(recs))
	}
	consumer, err := kafka.NewConsumer(cfg, figures.Group, events.ConsumedBy("stats"), kafka.Batch(batchSize, handle), log)
	if err != nil {
		return nil, err
	}
	consumer.StartAt(positions{offsets})
	return consumer, nil
}

func toRecords(recs []kafka.Record) []figures.Record {
	out := make([]figures.Record, len(recs))
	for i, r := range recs {
		out[i] = figures.Record{
			EventID: r.EventID, Offset: r.Offset, Time: r.Time, Redriven: r.ReadFrom != r.Topic, AddTo: func(d *figures.Delta) error { return addRecord(d, r) },
		}
	}
	return out
}

// addRecord decodes one record and adds it to d.
func addRecord(d *figures.Delta, r kafka.Record) error {
	switch r.Topic {
	case events.Reservations:
		return decodeCounted(r, &eventsv1.ReservationEvent{}, func(e *eventsv1.ReservationEvent) { d.AddReservation(toReservation(e)) })
	case events.Payments:
		return decodeCounted(r, &eventsv1.PaymentEvent{}, func(e *eventsv1.PaymentEvent) { d.AddPayment(toPayment(e)) })
	case events.Transfers:
		return decodeCounted(r, &eventsv1.TransferEvent{}, func(e *eventsv1.TransferEvent) { d.Add(toEvent(e)) })
	case events.Memberships:
		return decodeCounted(r, membershipEvent{&eventsv1.MembershipEvent{}}, func(e membershipEvent) { d.Add(toEvent(e)) })
	case events.Rewards:
		return decodeCounted(r, &eventsv1.RewardEvent{}, func(e *eventsv1.RewardEvent) { d.AddReward(toReward(e)) })
	case events.Requests:
		return decodeCounted(r, &eventsv1.RequestEvent{}, func(e *eventsv1.RequestEvent) { d.Add(toEvent(e)) })
	}
	return nil
}

// kafkaEvent has the methods that the messages of all counted topics have in common.
type kafkaEvent interface {
	proto.Message
	GetType() string
	GetEventId() string
	GetOccurredAt() *timestamppb.Timestamp
}

// decodeCounted decodes r into e and calls add if the type of e is counted. Events of other types
// are not checked, since they may be newer than this code.
func decodeCounted[E kafkaEvent](r kafka.Record, e E, add func(e E)) error {
	if err := kafka.Decode(r, e); err != nil || !figures.Counted(e.GetType()) {
		return err
	}
	if err := checkStorable(e); err != nil {
		return kafka.Poison(fmt.Errorf("%s event %s: %w", r.Topic, r.EventID, err))
	}
	add(e)
	return nil
}

// checkStorable fails for values that the database would refuse on every attempt, such as a zero
// byte. Repeating them would block the partition.
func checkStorable(e kafkaEvent) error {
	switch {
	case !ids.ValidEventID(e.GetEventId()) && !belongsToNoEvent(e):
		return fmt.Errorf("eventId %.70q", e.GetEventId())
	case e.GetOccurredAt().CheckValid() != nil:
		return errors.New("no occurredAt")
	default:
		return nil
	}
}

// membershipEvent has no event id, since memberships belong to no event.
type membershipEvent struct{ *eventsv1.MembershipEvent }

func (membershipEvent) GetEventId() string { return "" }

// belongsToNoEvent reports whether e is about a membership or its payment.
func belongsToNoEvent(e kafkaEvent) bool {
	switch e := e.(type) {
	case membershipEvent:
		return true
	case *eventsv1.PaymentEvent:
		return e.GetEventId() == "" && e.GetPaymentType() == figures.TypeMembership
	default:
		return false
	}
}

func toEvent(e kafkaEvent) figures.Event {
	return figures.Event{Type: e.GetType(), EventID: e.GetEventId(), At: e.GetOccurredAt().AsTime()}
}

func toReservation(e *eventsv1.ReservationEvent) figures.Reservation {
	return figures.Reservation{
		Event: toEvent(e), Origin: e.GetOrigin(), Reason: e.GetReason(), Status: e.GetStatus(), Currency: e.GetCurrency(), Quantity: e.GetQuantity(), Fee: e.GetFee(),
	}
}

func toPayment(e *eventsv1.PaymentEvent) figures.Payment {
	return figures.Payment{
		Event: toEvent(e), PaymentType: e.GetPaymentType(), Currency: e.GetCurrency(), Cause: e.GetCause(), Amount: e.GetAmount(),
	}
}

func toReward(e *eventsv1.RewardEvent) figures.Reward {
	return figures.Reward{Event: toEvent(e), Kind: e.GetRewardKind(), Value: e.GetValue()}
}
