// Package kafka hears of reservations: a hold extends the slot it was made in, a purchase ends it.
package kafka

import (
	"context"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
)

// Topic and Group of the consumer.
const (
	Topic = "reservation-events"
	Group = "queue-service-group"
)

// Types of reservation events that concern slots.
const (
	created   = "RESERVATION_CREATED"
	confirmed = "RESERVATION_CONFIRMED"
)

// Slots is what reservations do to slots. Both may be repeated: a slot id is never used twice.
type Slots interface {
	Held(ctx context.Context, eventID, userID, slotID string, until time.Time) error
	Purchased(ctx context.Context, eventID, userID, slotID string) error
}

// Handler processes reservation events. A store that does not answer is waited for; what makes no sense is put aside.
func Handler(slots Slots) kafka.Handler {
	return kafka.Each(func(ctx context.Context, rec kafka.Record) error {
		var e eventsv1.ReservationEvent
		if err := kafka.Decode(rec, &e); err != nil {
			return err
		}
		if e.GetSlotId() == "" || e.GetEventId() == "" || e.GetUserId() == "" {
			return nil // made without a waiting room, by an operator
		}
		err := apply(ctx, slots, &e)
		failpoint.Hit("queue.reservation.after_effect")
		return err
	})
}

func apply(ctx context.Context, slots Slots, e *eventsv1.ReservationEvent) error {
	switch e.GetType() {
	case created:
		return slots.Held(ctx, e.GetEventId(), e.GetUserId(), e.GetSlotId(), e.GetExpiresAt().AsTime())
	case confirmed:
		return slots.Purchased(ctx, e.GetEventId(), e.GetUserId(), e.GetSlotId())
	default:
		return nil
	}
}
