// Package kafka reads the domain topics and counts them.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/ids"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/figures"
)

// Group is the consumer group of all replicas.
const Group = "stats-service-group"

// batchSize bounds one transaction; measured, 500 is where larger batches gain nothing more.
const batchSize = 500

// Store counts a batch once.
type Store interface {
	Apply(ctx context.Context, group string, b figures.Batch) error
}

// NewConsumer makes the consumer that counts every topic into store.
func NewConsumer(cfg kafka.Config, store Store, log *slog.Logger) (*kafka.Consumer, error) {
	apply := func(ctx context.Context, recs []kafka.Record) error {
		return store.Apply(ctx, Group, batch(recs, time.Now().Add(-inbox.Keep)))
	}
	return kafka.NewConsumer(cfg, Group, []string{events.Payments, events.Reservations}, kafka.Batch(batchSize, apply), log)
}

// batch describes consecutive records of one partition; what happened before oldest the inbox may
// have forgotten.
func batch(recs []kafka.Record, oldest time.Time) figures.Batch {
	last := recs[len(recs)-1]
	b := figures.Batch{Topic: last.Topic, Partition: last.Partition, Next: last.Offset + 1}
	for _, r := range recs {
		b.EventIDs = append(b.EventIDs, r.EventID)
		if _, again := b.Old[r.EventID]; r.Time.Before(oldest) && !again { // the first of an event's offsets is the one that was counted
			if b.Old == nil {
				b.Old = make(map[string]int64)
			}
			b.Old[r.EventID] = r.Offset
		}
	}
	b.Delta = func(fresh map[string]bool) (figures.Delta, error) { return delta(recs, fresh) }
	return b
}

// delta adds up the fresh records; one that occurs twice in the batch counts once.
func delta(recs []kafka.Record, fresh map[string]bool) (figures.Delta, error) {
	var d figures.Delta
	seen := make(map[string]bool, len(recs))
	for _, r := range recs {
		if !fresh[r.EventID] || seen[r.EventID] {
			continue
		}
		seen[r.EventID] = true
		if err := add(&d, r); err != nil {
			return figures.Delta{}, err
		}
	}
	return d, nil
}

// add counts one record. What is not counted may have any form: its type may be younger than this
// code.
func add(d *figures.Delta, r kafka.Record) error {
	switch r.Topic {
	case events.Reservations:
		var e eventsv1.ReservationEvent
		if err := kafka.Decode(r, &e); err != nil || !figures.Counted(e.GetType()) {
			return err
		}
		if err := wellFormed(e.GetEventId(), e.GetOccurredAt()); err != nil {
			return kafka.Poison(fmt.Errorf("reservation event %s: %w", r.EventID, err))
		}
		d.AddReservation(toReservation(&e))
	case events.Payments:
		var e eventsv1.PaymentEvent
		if err := kafka.Decode(r, &e); err != nil || !figures.Counted(e.GetType()) {
			return err
		}
		if err := wellFormed(e.GetEventId(), e.GetOccurredAt()); err != nil {
			return kafka.Poison(fmt.Errorf("payment event %s: %w", r.EventID, err))
		}
		d.AddPayment(toPayment(&e))
	}
	return nil
}

// wellFormed keeps out what the database would refuse again and again, as a zero byte, while its
// partition waits.
func wellFormed(eventID string, at *timestamppb.Timestamp) error {
	switch {
	case !ids.Event(eventID):
		return fmt.Errorf("eventId %.70q", eventID)
	case at.CheckValid() != nil:
		return errors.New("no occurredAt")
	default:
		return nil
	}
}

func toReservation(e *eventsv1.ReservationEvent) figures.Reservation {
	return figures.Reservation{
		Type: e.GetType(), EventID: e.GetEventId(), Reason: e.GetReason(), Quantity: e.GetQuantity(), At: e.GetOccurredAt().AsTime(),
	}
}

func toPayment(e *eventsv1.PaymentEvent) figures.Payment {
	return figures.Payment{
		Type: e.GetType(), PaymentType: e.GetPaymentType(), EventID: e.GetEventId(), Currency: e.GetCurrency(),
		Cause: e.GetCause(), Amount: e.GetAmount(), At: e.GetOccurredAt().AsTime(),
	}
}
