// Package kafka consumes reservation events, which reject payments that cannot be honoured.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/payment/internal/payment"
)

// Compensator refunds payments that cannot be honoured.
type Compensator interface {
	// Compensate is idempotent. payment.ErrNotFound when the payment does not exist.
	Compensate(ctx context.Context, r payment.Rejection) error
}

// NewConsumer makes the consumer of rejected payments.
func NewConsumer(cfg kafka.Config, c Compensator, log *slog.Logger) (*kafka.Consumer, error) {
	return kafka.NewConsumer(cfg, payment.Group, []string{events.Reservations}, kafka.Each(func(ctx context.Context, rec kafka.Record) error {
		return handle(ctx, c, rec)
	}), log)
}

func handle(ctx context.Context, c Compensator, rec kafka.Record) error {
	if rec.Type != events.ReservationRejected {
		return nil // most of the topic; not worth decoding
	}
	var e eventsv1.ReservationEvent
	if err := kafka.Decode(rec, &e); err != nil {
		return err
	}
	id, err := uuid.Parse(e.GetPaymentId())
	if err != nil {
		return kafka.Poison(fmt.Errorf("rejected reservation %s names no payment: %w", e.GetReservationId(), err))
	}
	reason := e.GetReason()
	if reason == "" {
		reason = events.ReservationRejected
	}
	err = c.Compensate(ctx, payment.Rejection{EventKey: rec.EventID, PaymentID: id, Reason: reason})
	// The payment's row is committed before ticket sees the payment, so it is missing only after a
	// loss of data. A retry would not help; an operator redrives the record.
	if errors.Is(err, payment.ErrNotFound) {
		return kafka.Poison(fmt.Errorf("rejected payment %s is not known here: %w", id, err))
	}
	return err
}
