// Package events stores events with their sections and seats, and the settings of waiting lines.
package events

import (
	"context"
	"time"

	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

var (
	_ event.Reader        = (*Store)(nil)
	_ event.Writer        = (*Store)(nil)
	_ event.SettingsStore = (*Store)(nil)
)

// Store stores events and their seats. Reads for visitors use a separate pool of connections.
type Store struct {
	database *postgres.Database
	seats    seatCache
}

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store {
	return &Store{database: d, seats: seatCache{now: time.Now, entries: make(map[string]*cachedSeats)}}
}

func (s *Store) FindEvent(ctx context.Context, id string) (event.Event, error) {
	e, _, err := findEvent(ctx, s.database.ReadQueries(), id)
	return e, err
}

func findEvent(ctx context.Context, q *postgres.Queries, id string) (event.Event, time.Time, error) {
	row, err := q.FindEvent(ctx, db.FindEventParams{EventID: id, Now: q.AsOf})
	if err != nil {
		return event.Event{}, time.Time{}, postgres.OrNotFound(err, event.ErrNotFound)
	}
	sections, err := q.Sections(ctx, []string{id})
	return toEvent(row.Event, sections), row.Now.UTC(), pkgpostgres.Err(err)
}

func (s *Store) ListEvents(ctx context.Context, limit int, after *event.Cursor) (event.Page, error) {
	q := s.database.ReadQueries()
	arg := db.ListEventsParams{Now: q.AsOf, Max: int32(limit)} //nolint:gosec // at most 101
	if after != nil {
		arg.BeforeStart, arg.BeforeID = &after.StartsAt, after.ID
	}
	rows, err := q.ListEvents(ctx, arg)
	if err != nil || len(rows) == 0 {
		return event.Page{}, pkgpostgres.Err(err)
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Event.EventID
	}
	sections, err := q.Sections(ctx, ids)
	if err != nil {
		return event.Page{}, pkgpostgres.Err(err)
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

func (s *Store) CountTaken(ctx context.Context, id string, seating event.Seating) (event.Counts, error) {
	q := s.database.ReadQueries()
	taken := make(event.Counts)
	if seating != event.Assigned {
		var err error
		if taken, err = countTakenAdmissions(ctx, q, id); err != nil || seating == event.General {
			return taken, err
		}
	}
	rows, err := q.CountTaken(ctx, db.CountTakenParams{EventID: id, Now: q.AsOf})
	for _, r := range rows {
		taken[r.Section] = event.Count{Taken: r.Taken, Sold: r.Sold}
	}
	return taken, pkgpostgres.Err(err)
}

func countTakenAdmissions(ctx context.Context, q *postgres.Queries, id string) (event.Counts, error) {
	rows, err := q.TakenAdmissions(ctx, db.TakenAdmissionsParams{EventID: id, Now: q.AsOf})
	taken := make(event.Counts, len(rows))
	for _, r := range rows {
		taken[r.Section] = event.Count{Taken: r.Taken, Sold: r.Sold}
	}
	return taken, pkgpostgres.Err(err)
}

func (s *Store) SaleStatuses(ctx context.Context, ids []string) (map[string]event.SaleStatus, error) {
	q := s.database.ReadQueries()
	rows, err := q.SaleStandings(ctx, db.SaleStandingsParams{EventIds: ids, Now: q.AsOf})
	found := make(map[string]event.SaleStatus, len(rows))
	for _, r := range rows {
		sale := event.Sale{
			State: event.State(r.State), PresaleAt: postgres.TimeOrZero(r.PresaleOpensAt), OpenAt: r.SalesOpenAt.UTC(), CloseAt: r.SalesCloseAt.UTC(),
		}
		found[r.EventID] = event.SaleStatus{
			Status: sale.LineStatus(r.Now, r.SoldOut), PresaleOpensAt: sale.PresaleAt, OpensAt: sale.OpenAt, ClosesAt: sale.CloseAt,
			SettingsVersion: r.SettingsVersion,
		}
	}
	return found, pkgpostgres.Err(err)
}

// PlacesByEvent returns the numbers of places that are not free or held, by event id, for up to max
// events whose sale is open, opens within 15 min, or ended less than a day ago.
func (s *Store) PlacesByEvent(ctx context.Context, max int) (map[string]event.Places, error) {
	q := s.database.Queries()
	rows, err := q.PlacesByEvent(ctx, db.PlacesByEventParams{Now: q.AsOf, Max: int32(max)}) //nolint:gosec // a batch
	if err != nil {
		return nil, pkgpostgres.Err(err)
	}
	places := make(map[string]event.Places, len(rows))
	for _, r := range rows {
		places[r.EventID] = event.Places{Sold: r.Sold, House: r.House, Returning: r.Returns, Selling: r.Selling}
	}
	return places, nil
}

// ExpectedOpenings returns openings of sales and presales for which operators expect many visitors.
func (s *Store) ExpectedOpenings(ctx context.Context, since, until time.Time) ([]planned.Opening, error) {
	rows, err := s.database.ReadQueries().ExpectedOpenings(ctx, db.ExpectedOpeningsParams{Since: since, Until: until})
	out := make([]planned.Opening, len(rows))
	for i, r := range rows {
		out[i] = planned.Opening{EventID: r.EventID, At: r.OpensAt, Expected: plan.Expected{Visitors: r.ExpectedVisitors, WithinSeconds: int64(r.ExpectedWithin)}}
	}
	return out, pkgpostgres.Err(err)
}
