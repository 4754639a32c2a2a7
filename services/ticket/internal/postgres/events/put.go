package events

import (
	"context"
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

func (s *Store) PutEvent(ctx context.Context, e event.Event, match *event.Match, key *idempotency.Key) (event.Event, error) {
	id := e.ID
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		createdBefore, err := answers.Claim(ctx, tx, key)
		if err != nil {
			return err
		}
		if createdBefore != "" {
			id = createdBefore
			return nil
		}
		id = e.ID
		if err := putEvent(ctx, tx.Queries, e, match); err != nil {
			return err
		}
		return answers.Keep(ctx, tx, key, e.ID)
	})
	if err != nil {
		return event.Event{}, err
	}
	return s.FindEvent(ctx, id)
}

func putEvent(ctx context.Context, q *postgres.Queries, e event.Event, match *event.Match) error {
	created := e
	created.Complete(nil)
	inserted, err := q.InsertEvent(ctx, toRow(&created))
	if err != nil {
		return err
	}
	if inserted == 0 {
		return changeEvent(ctx, q, &e, match)
	}
	if match != nil { // nothing was there to match
		return event.ErrChanged
	}
	if err := insertPlaces(ctx, q, &created); err != nil {
		return err
	}
	return putLine(ctx, q, &created)
}

func putLine(ctx context.Context, q *postgres.Queries, e *event.Event) error {
	return q.PutLine(ctx, db.PutLineParams{EventID: e.ID, Threshold: e.Threshold, SlotSeconds: e.SlotSeconds})
}

// changeEvent locks the event's row, so that operators' changes are serialized. Buyers never wait
// for it. Settings that the new version leaves out stay as they are.
func changeEvent(ctx context.Context, q *postgres.Queries, e *event.Event, match *event.Match) error {
	now, old, err := lockSettings(ctx, q, e.ID)
	if err != nil {
		return err
	}
	if match != nil && !match.Allows(old.ETag()) {
		return event.ErrChanged
	}
	if given(e.Threshold, old.Threshold) || given(e.SlotSeconds, old.SlotSeconds) {
		if err := putLine(ctx, q, e); err != nil {
			return err
		}
	}
	e.Complete(&old.Spec)
	changes := event.Compare(old.Spec, e.Spec)
	if !changes.Any {
		return nil
	}
	if changes.Structure {
		err = replacePlaces(ctx, q, &old, e, now)
	} else {
		err = updateSections(ctx, q, e)
	}
	if err != nil {
		return err
	}
	return q.UpdateEvent(ctx, db.UpdateEventParams(toRow(e)))
}

// lockSettings reads an existing event with all its settings, and locks them against changes by
// either route.
func lockSettings(ctx context.Context, q *postgres.Queries, id string) (time.Time, event.Event, error) {
	row, err := q.LockEvent(ctx, db.LockEventParams{EventID: id, Now: q.AsOf})
	if err != nil {
		return time.Time{}, event.Event{}, err
	}
	if err := q.LockLine(ctx, id); err != nil {
		return time.Time{}, event.Event{}, err
	}
	sections, err := q.Sections(ctx, []string{id})
	if err != nil {
		return time.Time{}, event.Event{}, err
	}
	e := toEvent(row.Event, sections)
	err = addLine(ctx, q, &e)
	return row.Now, e, err
}

// addLine sets the settings of the event's line.
func addLine(ctx context.Context, q *postgres.Queries, e *event.Event) error {
	line, err := lineSettings(ctx, q, e.ID)
	e.Threshold, e.SlotSeconds = line.Threshold, line.SlotSeconds
	return err
}

// replacePlaces replaces all seats and sections. Once the sale has opened, or anything is held,
// they stay: visitors have the map.
func replacePlaces(ctx context.Context, q *postgres.Queries, old, e *event.Event, now time.Time) error {
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
	// A hold that was made meanwhile keeps its seat, and so the whole layout.
	if seats != int64(old.Layout().Seats) || sections != int64(len(old.Sections)) {
		return event.ErrLocked.With("member", "sections")
	}
	return insertPlaces(ctx, q, e)
}

func insertPlaces(ctx context.Context, q *postgres.Queries, e *event.Event) error {
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
func updateSections(ctx context.Context, q *postgres.Queries, e *event.Event) error {
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

// given reports whether a setting is set and differs from the one in force.
func given[T comparable](setting, live *T) bool {
	return setting != nil && (live == nil || *setting != *live)
}
