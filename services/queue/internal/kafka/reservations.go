// Package kafka consumes the Kafka events of reservations. When a reservation holds seats, its slot
// is extended, and does not end while its holder is absent. A purchase ends the slot.
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

// Group is the Kafka consumer group of all replicas of the queue service.
const Group = "queue-service-group"

// SlotUpdater applies holds of seats and purchases to the slots in which they were made. Both
// methods may be repeated, since a slot id is never reused.
type SlotUpdater interface {
	RecordHold(ctx context.Context, eventID string, h line.SeatHold) error
	RecordPurchase(ctx context.Context, eventID, userID, slotID string) error
}

// Handler returns the handler of the Kafka events of reservations. While Redis does not answer, an
// event is retried. An invalid event goes to the dead-letter topic.
func Handler(slots SlotUpdater) kafka.Handler {
	return kafka.Each(func(ctx context.Context, rec kafka.Record) error {
		var e eventsv1.ReservationEvent
		if err := kafka.Decode(rec, &e); err != nil {
			return err
		}
		if e.GetSlotId() == "" || e.GetEventId() == "" || e.GetUserId() == "" {
			return nil // an operator made the reservation, without a slot
		}
		err := applyReservation(ctx, slots, &e)
		failpoint.Hit("queue.reservation.after_effect")
		return err
	})
}

func applyReservation(ctx context.Context, slots SlotUpdater, e *eventsv1.ReservationEvent) error {
	switch e.GetType() {
	case events.ReservationCreated:
		return slots.RecordHold(ctx, e.GetEventId(), toSeatHold(e, e.GetExpiresAt().AsTime()))
	case events.ReservationCancelled, events.ReservationExpired, events.ReservationRejected:
		return slots.RecordHold(ctx, e.GetEventId(), toSeatHold(e, time.Time{}))
	case events.ReservationConfirmed:
		return slots.RecordPurchase(ctx, e.GetEventId(), e.GetUserId(), e.GetSlotId())
	default:
		return nil
	}
}

func toSeatHold(e *eventsv1.ReservationEvent, until time.Time) line.SeatHold {
	return line.SeatHold{UserID: e.GetUserId(), SlotID: e.GetSlotId(), ReservationID: e.GetReservationId(), Until: until}
}
