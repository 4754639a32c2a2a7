package postgres

import (
	"context"
	"time"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
)

var _ event.Reader = (*Store)(nil)

// FindEvent implements event.Reader.
func (s *Store) FindEvent(ctx context.Context, id string) (event.Event, error) {
	e, _, _, err := findEvent(ctx, s.queries(), id)
	return e, err
}

func findEvent(ctx context.Context, q *db.Queries, id string) (event.Event, time.Time, []db.SectionsRow, error) {
	row, err := q.FindEvent(ctx, id)
	if err != nil {
		return event.Event{}, time.Time{}, nil, orNotFound(err, event.ErrNotFound)
	}
	sections, err := q.Sections(ctx, []string{id})
	return toEvent(row.Event, sections), row.Now.UTC(), sections, postgres.Err(err)
}

// Snapshot implements event.Reader.
func (s *Store) Snapshot(ctx context.Context, id string) (event.Snapshot, error) {
	q := s.queries()
	e, now, sections, err := findEvent(ctx, q, id)
	if err != nil {
		return event.Snapshot{}, err
	}
	if e.Seating == event.General {
		return event.NewGeneral(e, now, freeOf(sections, nil)), nil
	}
	taken, err := q.TakenSeats(ctx, id)
	if err != nil {
		return event.Snapshot{}, postgres.Err(err)
	}
	return event.NewAssigned(e, now, taken), nil
}

// freeOf lists the sections' free places, less what is taken of them. With assigned seating the counters count nothing.
func freeOf(sections []db.SectionsRow, taken map[[2]string]int64) []int64 {
	free := make([]int64, len(sections))
	for i, s := range sections {
		free[i] = s.Free - taken[[2]string{s.EventID, s.Section}]
	}
	return free
}

// ListEvents implements event.Reader.
func (s *Store) ListEvents(ctx context.Context, limit int, after *event.Cursor) ([]event.Snapshot, error) {
	arg := db.ListEventsParams{Max: int32(limit)} //nolint:gosec // at most 101
	if after != nil {
		arg.BeforeStart, arg.BeforeID = &after.StartsAt, after.ID
	}
	q := s.queries()
	rows, err := q.ListEvents(ctx, arg)
	if err != nil {
		return nil, postgres.Err(err)
	}
	all, assigned := make([]string, len(rows)), []string(nil)
	for i, r := range rows {
		all[i] = r.Event.EventID
		if event.Seating(r.Event.Seating) == event.Assigned {
			assigned = append(assigned, r.Event.EventID)
		}
	}
	sections, err := q.Sections(ctx, all)
	if err != nil {
		return nil, postgres.Err(err)
	}
	counts, err := q.CountTaken(ctx, assigned)
	if err != nil {
		return nil, postgres.Err(err)
	}
	taken := make(map[[2]string]int64, len(counts))
	for _, c := range counts {
		taken[[2]string{c.EventID, c.Section}] = c.Taken
	}
	byEvent := make(map[string][]db.SectionsRow, len(rows))
	for _, sec := range sections {
		byEvent[sec.EventID] = append(byEvent[sec.EventID], sec)
	}
	list := make([]event.Snapshot, len(rows))
	for i, r := range rows {
		own := byEvent[r.Event.EventID]
		list[i] = event.NewGeneral(toEvent(r.Event, own), r.Now.UTC(), freeOf(own, taken))
	}
	return list, nil
}

// CountFree implements reservation.Holder.
func (s *Store) CountFree(ctx context.Context, eventID, section string) (int64, error) {
	n, err := s.queries().CountFree(ctx, db.CountFreeParams{EventID: eventID, Section: section})
	return n, postgres.Err(err)
}
