package scans

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

const (
	// countEvery is how often check-ins are published: by event and minute, not one by one.
	countEvery = 20 * time.Second
	// countBatch is the most scans that one transaction counts.
	countBatch = 5000
)

// PublishCounts publishes, by event and minute, the number of check-ins since the last publication,
// less the undone ones. Any number of replicas may call it at the same time.
func (s *Store) PublishCounts(ctx context.Context) error {
	_, err := loop.Batches(ctx, countBatch, func(ctx context.Context, size int32) (n int64, err error) {
		err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
			rows, err := tx.CountScans(ctx, db.CountScansParams{Max: size, Now: tx.ClockTime()})
			if err != nil {
				return err
			}
			n = 0
			var counts []outbox.Event
			for _, r := range rows {
				if n += r.Scans; r.CheckedIn != 0 {
					counts = append(counts, countEvent(r))
				}
			}
			return outbox.Insert(ctx, tx, postgres.EventSource, counts...)
		})
		return n, err
	})
	return err
}

func countEvent(r db.CountScansRow) outbox.Event {
	return outbox.Event{Topic: events.Reservations, Key: r.EventID, Type: events.TicketsCheckedIn, Payload: &eventsv1.ReservationEvent{
		Type: events.TicketsCheckedIn, EventId: r.EventID, Quantity: r.CheckedIn, OccurredAt: timestamppb.New(r.Minute),
	}}
}

// Counter returns the worker that calls PublishCounts every countEvery.
func (s *Store) Counter(log *slog.Logger) func(context.Context) error {
	return loop.Pruner(countEvery, log, "check-ins not counted", s.PublishCounts)
}
