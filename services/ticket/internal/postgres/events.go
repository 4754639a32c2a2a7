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
	e, _, err := findEvent(ctx, s.queries(s.reads), id)
	return e, err
}

func findEvent(ctx context.Context, q *queries, id string) (event.Event, time.Time, error) {
	row, err := q.FindEvent(ctx, db.FindEventParams{EventID: id, Now: q.now})
	if err != nil {
		return event.Event{}, time.Time{}, orNotFound(err, event.ErrNotFound)
	}
	sections, err := q.Sections(ctx, []string{id})
	return toEvent(row.Event, sections), row.Now.UTC(), postgres.Err(err)
}

// Snapshot implements event.Reader.
func (s *Store) Snapshot(ctx context.Context, id string) (event.Snapshot, error) {
	q := s.queries(s.reads)
	e, now, err := findEvent(ctx, q, id)
	if err != nil {
		return event.Snapshot{}, err
	}
	if e.Seating == event.General {
		taken, err := takenAdmissions(ctx, q, id)
		return event.NewCounted(e, now, taken), err
	}
	row, err := q.TakenSeats(ctx, db.TakenSeatsParams{EventID: id, Now: q.now})
	if err != nil {
		return event.Snapshot{}, postgres.Err(err)
	}
	return event.NewAssigned(e, now, row.Taken, row.Sold), nil
}

// ListEvents implements event.Reader.
func (s *Store) ListEvents(ctx context.Context, limit int, after *event.Cursor) (event.Page, error) {
	q := s.queries(s.reads)
	arg := db.ListEventsParams{Now: q.now, Max: int32(limit)} //nolint:gosec // at most 101
	if after != nil {
		arg.BeforeStart, arg.BeforeID = &after.StartsAt, after.ID
	}
	rows, err := q.ListEvents(ctx, arg)
	if err != nil || len(rows) == 0 {
		return event.Page{}, postgres.Err(err)
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Event.EventID
	}
	sections, err := q.Sections(ctx, ids)
	if err != nil {
		return event.Page{}, postgres.Err(err)
	}
	byEvent := make(map[string][]db.SectionsRow, len(rows))
	for _, sec := range sections {
		byEvent[sec.EventID] = append(byEvent[sec.EventID], sec)
	}
	page := event.Page{Events: make([]event.Event, len(rows)), At: rows[0].Now.UTC()}
	for i, r := range rows {
		page.Events[i] = toEvent(r.Event, byEvent[r.Event.EventID])
	}
	return page, nil
}

// Taken implements event.Reader.
func (s *Store) Taken(ctx context.Context, id string, seating event.Seating) (event.Counts, error) {
	q := s.queries(s.reads)
	if seating == event.General {
		return takenAdmissions(ctx, q, id)
	}
	rows, err := q.CountTaken(ctx, db.CountTakenParams{EventID: id, Now: q.now})
	taken := make(event.Counts, len(rows))
	for _, r := range rows {
		taken[r.Section] = event.Count{Taken: r.Taken, Sold: r.Sold}
	}
	return taken, postgres.Err(err)
}

func takenAdmissions(ctx context.Context, q *queries, id string) (event.Counts, error) {
	rows, err := q.TakenAdmissions(ctx, db.TakenAdmissionsParams{EventID: id, Now: q.now})
	taken := make(event.Counts, len(rows))
	for _, r := range rows {
		taken[r.Section] = event.Count{Taken: r.Taken, Sold: r.Sold}
	}
	return taken, postgres.Err(err)
}

// Standings implements event.Reader.
func (s *Store) Standings(ctx context.Context, ids []string) (map[string]event.Standing, error) {
	q := s.queries(s.reads)
	rows, err := q.SaleStandings(ctx, db.SaleStandingsParams{EventIds: ids, Now: q.now})
	found := make(map[string]event.Standing, len(rows))
	for _, r := range rows {
		sale := event.Sale{State: event.State(r.State), OpenAt: r.SalesOpenAt.UTC(), CloseAt: r.SalesCloseAt.UTC()}
		found[r.EventID] = event.Standing{
			Status: sale.Status(r.Now, r.SoldOut), OpensAt: sale.OpenAt, ClosesAt: sale.CloseAt, SettingsVersion: r.SettingsVersion,
		}
	}
	return found, postgres.Err(err)
}

// countFree counts the free seats of a section.
func (s *Store) countFree(ctx context.Context, eventID, section string) (int64, error) {
	q := s.queries(s.pool)
	n, err := q.CountFree(ctx, db.CountFreeParams{EventID: eventID, Section: section, Now: q.now})
	return n, postgres.Err(err)
}
