package events

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

// returnBatch is the most places that one transaction locks and puts on sale again.
const returnBatch = 200

// ReleaseReturns puts the places in returns on sale again once their waiting time is over. If the
// sale has ended by then, the organiser gets those that were given back instead. Any number of
// replicas may call it.
func (s *Store) ReleaseReturns(ctx context.Context) error {
	for n := returnBatch; n == returnBatch && ctx.Err() == nil; {
		err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
			due, err := tx.TakeDueReturns(ctx, db.TakeDueReturnsParams{Now: tx.AsOf, Max: returnBatch})
			if n = len(due); err != nil || n == 0 {
				return err
			}
			return releasePlaces(ctx, tx, due)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// releasePlaces puts places on sale, or into the house if their sale has ended. Like all
// transactions it locks seats first, then sections of general admission, then sections with seats.
func releasePlaces(ctx context.Context, tx *postgres.Tx, due []db.TakeDueReturnsRow) error {
	var eventIDs, sections []string
	var seats db.ReleaseSeatsParams
	for _, d := range due {
		eventIDs, sections = append(eventIDs, d.EventID), append(sections, d.Section)
		if d.SeatID != "" {
			seats.EventIds, seats.SeatIds = append(seats.EventIds, d.EventID), append(seats.SeatIds, d.SeatID)
		}
	}
	if _, err := postgres.LockReturnedSeats.Take(ctx, tx, db.LockReturnedSeatsParams{EventIds: seats.EventIds, SeatIds: seats.SeatIds}); err != nil {
		return err
	}
	if _, err := postgres.LockStandingSections.Take(ctx, tx, db.LockStandingSectionsParams{EventIds: eventIDs, Sections: sections}); err != nil {
		return err
	}
	closings, now, err := postgres.Closings(ctx, tx.Queries, eventIDs)
	if err != nil {
		return err
	}
	deltas := make(postgres.CounterDeltas)
	for _, d := range due {
		status, delta := event.SeatStatusFree, postgres.CounterDelta{Returns: -1}
		switch closing := closings[d.EventID]; {
		case d.Unpaid && d.SeatID == "":
			delta = postgres.CounterDelta{Held: -1}
		case d.Unpaid: // held seats are not counted
			delta = postgres.CounterDelta{}
		case closing.KeepsReturns(now):
			status, delta.House = event.SeatStatusHouse, 1
		}
		if d.SeatID != "" {
			seats.Statuses = append(seats.Statuses, status)
		}
		deltas.Add(d.EventID, d.Section, delta)
	}
	n, err := tx.ReleaseSeats(ctx, seats)
	if err := postgres.ExpectRows(n, len(seats.SeatIds), "seats", err); err != nil {
		return err
	}
	return tx.AddToCounters(ctx, deltas)
}

// Releaser returns a worker that calls ReleaseReturns until its context ends.
func (s *Store) Releaser(every time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, every, log, "places given back not released", s.ReleaseReturns)
	}
}
