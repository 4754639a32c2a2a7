// Package kafka reads the domain topics and counts them.
package kafka

import (
	"context"
	"fmt"
	"log/slog"

	"urr.guru/pkg/kafka"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/figures"
)

// Group is the consumer group of all replicas.
const Group = "stats-service-group"

// Topics are what is counted.
const (
	paymentEvents     = "payment-events"
	reservationEvents = "reservation-events"
)

// batchSize bounds one transaction; measured, 500 is where larger batches gain nothing more.
const batchSize = 500

// Store counts a batch once.
type Store interface {
	Apply(ctx context.Context, group string, b figures.Batch) error
}

// NewConsumer makes the consumer that counts every topic into store.
func NewConsumer(cfg kafka.Config, store Store, log *slog.Logger) (*kafka.Consumer, error) {
	apply := func(ctx context.Context, recs []kafka.Record) error {
		return store.Apply(ctx, Group, batch(recs))
	}
	return kafka.NewConsumer(cfg, Group, []string{paymentEvents, reservationEvents}, kafka.Batch(batchSize, apply), log)
}

// batch describes consecutive records of one partition.
func batch(recs []kafka.Record) figures.Batch {
	last := recs[len(recs)-1]
	b := figures.Batch{Topic: last.Topic, Partition: last.Partition, Next: last.Offset + 1}
	for _, r := range recs {
		b.EventIDs = append(b.EventIDs, r.EventID)
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

func add(d *figures.Delta, r kafka.Record) error {
	switch r.Topic {
	case reservationEvents:
		var e eventsv1.ReservationEvent
		if err := kafka.Decode(r, &e); err != nil {
			return err
		}
		if e.GetEventId() == "" || e.GetOccurredAt() == nil {
			return kafka.Poison(fmt.Errorf("reservation event %s: eventId and occurredAt are required", r.EventID))
		}
		d.AddReservation(toReservation(&e))
	case paymentEvents:
		var e eventsv1.PaymentEvent
		if err := kafka.Decode(r, &e); err != nil {
			return err
		}
		if e.GetOccurredAt() == nil {
			return kafka.Poison(fmt.Errorf("payment event %s: occurredAt is required", r.EventID))
		}
		d.AddPayment(toPayment(&e))
	}
	return nil
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
