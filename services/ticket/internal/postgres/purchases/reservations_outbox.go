package purchases

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/ticket/internal/reservation"
)

// InsertReservationEvents inserts Kafka events into the outbox. The rows of their reservations must be
// locked, or new.
func InsertReservationEvents(ctx context.Context, tx pgx.Tx, list []reservation.Event) error {
	return insertEvents(ctx, tx, list, func(e *reservation.Event) outbox.Event {
		return outbox.Event{
			Topic: events.Reservations, Key: e.Reservation.ID.String(), Type: string(e.Type), EntityVersion: e.Reservation.Version,
			Payload: reservationPayload(e),
		}
	})
}

func reservationPayload(e *reservation.Event) *eventsv1.ReservationEvent {
	r := &e.Reservation
	p := &eventsv1.ReservationEvent{
		Type: string(e.Type), ReservationId: r.ID.String(), EventId: r.EventID, UserId: r.UserID, SlotId: r.SlotID,
		Status: string(r.Status), SeatIds: r.SeatIDs(), Section: r.Section, Quantity: int64(r.Quantity), Amount: r.Amount,
		Fee: r.Fee, Currency: r.Currency, Origin: string(r.Origin), Version: r.Version, OccurredAt: timestamppb.New(e.At),
	}
	if e.PaymentID != uuid.Nil {
		p.PaymentId = proto.String(e.PaymentID.String())
	}
	if e.Reason != "" {
		p.Reason = proto.String(e.Reason)
	}
	if e.Type == reservation.EventRefundDue {
		p.ClaimId, p.Cause = proto.String(e.Due.ClaimID.String()), proto.String(e.Due.Cause)
		for _, item := range e.Due.Items {
			p.Items = append(p.Items, &eventsv1.RefundItem{TicketId: item.TicketID.String(), Amount: item.Amount})
		}
	}
	if e.Type == reservation.EventCreated {
		p.ExpiresAt = timestamppb.New(r.Until)
	}
	return p
}
