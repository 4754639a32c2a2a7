// Package kafka consumes payment events.
package kafka

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/ticket/internal/reservation"
)

// Group is the consumer group of all replicas.
const Group = "ticket-service-group"

// maxBatch bounds the payments of one transaction, and so the seats that it locks.
const maxBatch = 200

// Settler applies payment events to reservations.
type Settler interface {
	// Settle applies each event once in the consumer group.
	Settle(ctx context.Context, group string, events []reservation.PaymentEvent) error
}

// NewConsumer makes the consumer of payment-events.
func NewConsumer(cfg kafka.Config, s Settler, log *slog.Logger) (*kafka.Consumer, error) {
	return kafka.NewConsumer(cfg, Group, []string{events.Payments}, kafka.Batch(maxBatch, Handle(s)), log)
}

// Handle returns the handler of payment-events. A record that cannot be decoded, or has another
// payment type, is poison (it goes to the dead-letter topic): no service would refund that payment.
func Handle(s Settler) func(context.Context, []kafka.Record) error {
	return func(ctx context.Context, recs []kafka.Record) error {
		payments := make([]reservation.PaymentEvent, 0, len(recs))
		for _, rec := range recs {
			e, err := decode(rec)
			if err != nil {
				return err
			}
			payments = append(payments, e)
		}
		return s.Settle(ctx, Group, payments)
	}
}

// typeReservation is the only payment type that this service handles; an absent type means it.
const typeReservation = "reservation"

func decode(rec kafka.Record) (reservation.PaymentEvent, error) {
	var p eventsv1.PaymentEvent
	if err := kafka.Decode(rec, &p); err != nil {
		return reservation.PaymentEvent{}, err
	}
	bad := func(format string, args ...any) (reservation.PaymentEvent, error) {
		return reservation.PaymentEvent{}, kafka.Poison(fmt.Errorf("payment event %s: "+format, append([]any{rec.EventID}, args...)...))
	}
	if t := p.GetPaymentType(); t != "" && t != typeReservation {
		return bad("payment type %q is not sold here", t)
	}
	if t := p.GetType(); t != events.PaymentConfirmed && t != events.PaymentRefunded {
		return bad("type %q is not known", t)
	}
	payment, err := uuid.Parse(p.GetPaymentId())
	if err != nil {
		return bad("payment id: %w", err)
	}
	reference, err := uuid.Parse(p.GetReferenceId())
	if err != nil {
		return bad("reference id: %w", err)
	}
	return reservation.PaymentEvent{
		Key: rec.EventID, ReservationID: reference, Version: p.GetVersion(), Refunded: p.GetType() == events.PaymentRefunded, Cause: reservation.Cause(p.GetCause()),
		Payment: reservation.Payment{
			ID: payment, UserID: p.GetUserId(), EventID: p.GetEventId(), Amount: p.GetAmount(), Currency: p.GetCurrency(),
		},
	}, nil
}
