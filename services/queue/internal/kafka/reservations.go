// Package kafka consumes reservation events: a hold extends its slot and keeps the slot during its
// holder's absence, a purchase ends the slot.
package kafka

import (
	"context"
	"time"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/queue/internal/line"
)

// Group is the consumer group of all replicas.
const Group = "queue-service-group"

// Slots applies reservations to slots. Both methods are idempotent, since a slot id is never
// reused.
type Slots interface {
	Held(ctx context.Context, eventID string, h line.Hold) error
	Purchased(ctx context.Context, eventID, userID, slotID string) error
}

// Handler processes reservation events. It retries while the store does not answer; invalid events
// go to the dead-letter topic.
func Handler(slots Slots) kafka.Handler {
	return kafka.Each(func(ctx context.Context, rec kafka.Record) error {
		var e eventsv1.ReservationEvent
		if err := kafka.Decode(rec, &e); err != nil {
			return err
		}
		if e.GetSlotId() == "" || e.GetEventId() == "" || e.GetUserId() == "" {
			return nil // made by an operator, without a waiting room
		}
		err := apply(ctx, slots, &e)
		failpoint.Hit("queue.reservation.after_effect")
		return err
	})
}

func apply(ctx context.Context, slots Slots, e *eventsv1.ReservationEvent) error {
	switch e.GetType() {
	case events.ReservationCreated:
		return slots.Held(ctx, e.GetEventId(), hold(e, e.GetExpiresAt().AsTime()))
	case events.ReservationCancelled, events.ReservationExpired, events.ReservationRejected:
		return slots.Held(ctx, e.GetEventId(), hold(e, time.Time{}))
	case events.ReservationConfirmed:
		return slots.Purchased(ctx, e.GetEventId(), e.GetUserId(), e.GetSlotId())
	default:
		return nil
	}
}

func hold(e *eventsv1.ReservationEvent, until time.Time) line.Hold {
	return line.Hold{UserID: e.GetUserId(), SlotID: e.GetSlotId(), ReservationID: e.GetReservationId(), Until: until}
}
