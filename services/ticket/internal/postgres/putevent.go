package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
)

var _ event.Writer = (*Store)(nil)

// PutEvent implements event.Writer.
func (s *Store) PutEvent(ctx context.Context, e event.Event, spec *event.Spec, once *idempotency.Key) (event.Event, error) {
	id := e.ID
	err := postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		q := db.New(tx)
		made, err := answers.Claim(ctx, tx, once)
		if err != nil {
			return err
		}
		if made != "" {
			id = made
			return nil
		}
		id = e.ID
		if err := putEvent(ctx, q, &e, spec); err != nil {
			return err
		}
		return answers.Keep(ctx, tx, once, e.ID)
	})
	if err != nil {
		return event.Event{}, err
	}
	return s.FindEvent(ctx, id)
}

func putEvent(ctx context.Context, q *db.Queries, e *event.Event, spec *event.Spec) error {
	inserted, err := q.InsertEvent(ctx, db.InsertEventParams{
		EventID: e.ID, Title: e.Title, Artist: e.Artist, Venue: e.Venue, StartsAt: e.StartsAt, SalesOpenAt: e.SalesOpenAt,
		SalesCloseAt: e.SalesCloseAt, Seating: string(e.Seating), Currency: e.Currency, MaxPerUser: int32(e.MaxPerUser), //nolint:gosec // ≤ 1000
		HoldSeconds: spec.HoldSeconds, SlotSeconds: spec.SlotSeconds, Threshold: spec.Threshold,
	})
	if err != nil {
		return err
	}
	if inserted == 1 {
		if err := insertPlaces(ctx, q, e); err != nil {
			return err
		}
		return q.PutLine(ctx, db.PutLineParams{EventID: e.ID, Threshold: spec.Threshold, SlotSeconds: spec.SlotSeconds})
	}
	return changeEvent(ctx, q, e, spec)
}

// changeEvent locks the event's row, so that operators change one after the other. Buyers never wait for it.
func changeEvent(ctx context.Context, q *db.Queries, e *event.Event, spec *event.Spec) error {
	row, err := q.LockEvent(ctx, e.ID)
	if err != nil {
		return err
	}
	sections, err := q.Sections(ctx, []string{e.ID})
	if err != nil {
		return err
	}
	old := toEvent(row.Event, sections)
	changes := event.Compare(&old, e)
	line := !equal(row.Event.Threshold, spec.Threshold) || !equal(row.Event.SlotSeconds, spec.SlotSeconds)
	if !changes.Any && !line {
		return nil
	}
	if changes.Structure {
		err = replacePlaces(ctx, q, &old, e, row.Now)
	} else {
		err = updateSections(ctx, q, e)
	}
	if err != nil {
		return err
	}
	if line {
		// Only what the operator changed here: a repeated PUT must not undo what was set at the line itself since.
		err := q.PutLine(ctx, db.PutLineParams{EventID: e.ID, Threshold: spec.Threshold, SlotSeconds: spec.SlotSeconds})
		if err != nil {
			return err
		}
	}
	return q.UpdateEvent(ctx, db.UpdateEventParams{
		EventID: e.ID, Title: e.Title, Artist: e.Artist, Venue: e.Venue, StartsAt: e.StartsAt, SalesOpenAt: e.SalesOpenAt,
		SalesCloseAt: e.SalesCloseAt, Seating: string(e.Seating), Currency: e.Currency, MaxPerUser: int32(e.MaxPerUser), //nolint:gosec // ≤ 1000
		HoldSeconds: spec.HoldSeconds, SlotSeconds: spec.SlotSeconds, Threshold: spec.Threshold,
	})
}

// replacePlaces makes all seats and sections anew. Once the sale has opened, or anything is held, they stay: visitors have the map.
func replacePlaces(ctx context.Context, q *db.Queries, old, e *event.Event, now time.Time) error {
	live, err := q.HasLiveReservations(ctx, e.ID)
	if err != nil {
		return err
	}
	if live || !now.Before(old.SalesOpenAt) {
		return event.ErrLocked.With("member", "sections")
	}
	seats, err := q.DeleteFreeSeats(ctx, e.ID)
	if err != nil {
		return err
	}
	sections, err := q.DeleteUnusedSections(ctx, e.ID)
	if err != nil {
		return err
	}
	// A hold that came in between keeps its seat, and with it the whole layout.
	if seats != int64(old.Layout().Seats) || sections != int64(len(old.Sections)) {
		return event.ErrLocked.With("member", "sections")
	}
	return insertPlaces(ctx, q, e)
}

func insertPlaces(ctx context.Context, q *db.Queries, e *event.Event) error {
	n := len(e.Sections)
	arg := db.InsertSectionsParams{
		EventID: e.ID, Sections: make([]string, n), Ordinals: make([]int32, n), Prices: make([]int64, n), Capacities: make([]int64, n),
		SeatRows: make([]int32, n), SeatsPerRow: make([]int32, n), FirstIdx: make([]int32, n),
	}
	for i, s := range e.Sections {
		arg.Sections[i], arg.Ordinals[i], arg.Prices[i], arg.Capacities[i] = s.Name, int32(i), s.Price, s.Capacity //nolint:gosec // ≤ 200
		arg.SeatRows[i], arg.SeatsPerRow[i], arg.FirstIdx[i] = int32(s.Rows), int32(s.SeatsPerRow), int32(s.First) //nolint:gosec // ≤ MaxSeats
	}
	if err := q.InsertSections(ctx, arg); err != nil {
		return err
	}
	if e.Seating != event.Assigned {
		return nil
	}
	seats, err := q.InsertSeats(ctx, e.ID)
	if err == nil && seats != int64(e.Layout().Seats) {
		err = fmt.Errorf("%d seats made, not %d", seats, e.Layout().Seats)
	}
	return err
}

// updateSections sets prices and capacities; a capacity below what is held and sold is refused.
func updateSections(ctx context.Context, q *db.Queries, e *event.Event) error {
	arg := db.UpdateSectionsParams{EventID: e.ID}
	for _, s := range e.Sections {
		arg.Sections = append(arg.Sections, s.Name)
		arg.Prices = append(arg.Prices, s.Price)
		arg.Capacities = append(arg.Capacities, s.Capacity)
	}
	// In the order in which holds lock them.
	if _, err := q.LockSections(ctx, db.LockSectionsParams{EventID: e.ID, Sections: slices.Clone(arg.Sections)}); err != nil {
		return err
	}
	n, err := q.UpdateSections(ctx, arg)
	if err == nil && n != int64(len(e.Sections)) {
		err = event.ErrLocked.With("member", "capacity")
	}
	return err
}

func equal[T comparable](a, b *T) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

var _ event.Lines = (*Store)(nil)

// LineSettings implements event.Lines.
func (s *Store) LineSettings(ctx context.Context, eventID string) (event.LineSettings, error) {
	r, err := s.queries().LineSettings(ctx, eventID)
	if err != nil {
		return event.LineSettings{}, orNotFound(err, event.ErrNotFound)
	}
	return event.LineSettings{
		EventID: eventID, Threshold: r.Threshold, SlotSeconds: r.SlotSeconds, ClosesAt: r.SalesCloseAt, Paused: r.Paused,
		BlockedUsers: r.BlockedUsers,
	}, nil
}

// ChangeLine implements event.Lines.
func (s *Store) ChangeLine(ctx context.Context, eventID string, c event.LineChange) (event.LineSettings, error) {
	arg := db.ChangeLineParams{EventID: eventID, Threshold: c.Threshold, Paused: c.Paused, BlockUser: c.BlockUser}
	if err := s.queries().ChangeLine(ctx, arg); err != nil {
		return event.LineSettings{}, postgres.Err(err)
	}
	return s.LineSettings(ctx, eventID)
}
