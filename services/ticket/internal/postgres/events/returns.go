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

// returnBatch bounds the places that one transaction releases, and so the seats that it locks.
const returnBatch = 200

// ReleaseReturns puts the places on sale again whose time has come, of those that were given back. The
// organiser keeps those of events that close before. Any number of replicas may release.
func (s *Store) ReleaseReturns(ctx context.Context) error {
	for n := returnBatch; n == returnBatch && ctx.Err() == nil; {
		err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
			due, err := tx.TakeDueReturns(ctx, db.TakeDueReturnsParams{Now: tx.AsOf, Max: returnBatch})
			if n = len(due); err != nil || n == 0 {
				return err
			}
			return release(ctx, tx, due)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// release locks seats, then the sections of general admission, then those of seats, as all transactions
// do.
func release(ctx context.Context, tx *postgres.Tx, due []db.TakeDueReturnsRow) error {
	arg := db.MoveSoldParams{}
	var seats db.ReleaseSeatsParams
	for _, d := range due {
		arg.EventIds, arg.Sections = append(arg.EventIds, d.EventID), append(arg.Sections, d.Section)
		if d.SeatID != "" {
			seats.EventIds, seats.SeatIds = append(seats.EventIds, d.EventID), append(seats.SeatIds, d.SeatID)
		}
	}
	if err := tx.LockReturnedSeats(ctx, db.LockReturnedSeatsParams{EventIds: seats.EventIds, SeatIds: seats.SeatIds}); err != nil {
		return err
	}
	if err := tx.LockStandingSections(ctx, db.LockStandingSectionsParams{EventIds: arg.EventIds, Sections: arg.Sections}); err != nil {
		return err
	}
	closings, now, err := postgres.Closings(ctx, tx, arg.EventIds)
	if err != nil {
		return err
	}
	status := func(eventID string) string {
		if now.Before(closings[eventID].ClosesAt) {
			return event.SeatStatusFree
		}
		return event.SeatStatusHouse
	}
	for _, id := range seats.EventIds {
		seats.Statuses = append(seats.Statuses, status(id))
	}
	n, err := tx.ReleaseSeats(ctx, seats)
	if err := postgres.ExpectRows(n, len(seats.SeatIds), "seats", err); err != nil {
		return err
	}
	return moveReleased(ctx, tx, due, status)
}

// moveReleased moves the counters of the sections of released places.
func moveReleased(ctx context.Context, tx *postgres.Tx, due []db.TakeDueReturnsRow, status func(eventID string) string) error {
	type section struct{ eventID, name string }
	released := make(map[section]int64)
	for _, d := range due {
		released[section{d.EventID, d.Section}]++
	}
	var arg db.MoveSoldParams
	for s, n := range released {
		house := int64(0)
		if status(s.eventID) == event.SeatStatusHouse {
			house = n
		}
		arg.EventIds, arg.Sections = append(arg.EventIds, s.eventID), append(arg.Sections, s.name)
		arg.Sold, arg.House, arg.Returns = append(arg.Sold, 0), append(arg.House, house), append(arg.Returns, -n)
	}
	n, err := tx.MoveSold(ctx, arg)
	return postgres.ExpectRows(n, len(released), "sections", err)
}

// Releaser returns a worker that releases places until its context ends.
func (s *Store) Releaser(every time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, every, log, "places given back not released", s.ReleaseReturns)
	}
}
