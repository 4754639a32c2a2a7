package postgres

import (
	"context"
	"fmt"
	"time"

	"urr.guru/pkg/postgres"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/postgres/db"
)

var _ figures.DayStore = (*Store)(nil)

// EventFigures returns the totals of an event. They are empty if nothing was counted.
func (s *Store) EventFigures(ctx context.Context, eventID string) (figures.EventFigures, error) {
	rows, err := s.q.EventTotals(ctx, s.pool, eventID)
	if err != nil {
		return figures.EventFigures{}, postgres.Err(fmt.Errorf("event figures: %w", err))
	}
	e := figures.EventFigures{Updated: make(map[figures.ID]time.Time, len(rows))}
	for _, r := range rows {
		id := figures.ID{Figure: figures.Figure(r.Figure), Currency: r.Currency}
		e.Set(id, figures.Sum{Amount: r.Amount, Times: r.Times})
		e.Updated[id] = r.UpdatedAt.UTC()
	}
	return e, nil
}

// EventSeries returns the steps of q in which something was counted, in order of time.
func (s *Store) EventSeries(ctx context.Context, q figures.SeriesQuery) ([]figures.Point, error) {
	now := time.Now()
	if s.now != nil {
		now = *s.now
	}
	p := db.EventSeriesParams{
		EventID: q.EventID, Since: q.From, Until: q.To, MinutesSince: minutesSince(q, now), Seconds: q.Step.Seconds(), Figures: []string{},
	}
	if q.Public {
		for _, f := range figures.Public {
			p.Figures = append(p.Figures, string(f))
		}
	}
	rows, err := s.q.EventSeries(ctx, s.pool, p)
	if err != nil {
		return nil, postgres.Err(fmt.Errorf("event series: %w", err))
	}
	var points []figures.Point
	for _, r := range rows {
		if n := len(points); n == 0 || !points[n-1].At.Equal(r.At) {
			points = append(points, figures.Point{At: r.At.UTC()})
		}
		points[len(points)-1].Set(figures.ID{Figure: figures.Figure(r.Figure), Currency: r.Currency}, figures.Sum{Amount: r.Amount, Times: r.Times})
	}
	return points, nil
}

// CountedEvents returns the ids of the events that may have figures in the days from one to
// another, both included, in any time zone.
func (s *Store) CountedEvents(ctx context.Context, from, to time.Time) ([]string, error) {
	ids, err := s.q.CountedEvents(ctx, s.pool, db.CountedEventsParams{Since: from.AddDate(0, 0, -1), Until: to.AddDate(0, 0, 2)})
	if err != nil {
		return nil, postgres.Err(fmt.Errorf("counted events: %w", err))
	}
	return ids, nil
}

// EventDays returns a page of the days of the events in q.Zones on which something was counted.
func (s *Store) EventDays(ctx context.Context, q figures.DaysQuery) ([]figures.EventDay, error) {
	first := q.From
	if q.AfterDay.After(first) {
		first = q.AfterDay
	}
	p := db.EventDaysParams{First: first, Last: q.To, AfterDay: q.AfterDay, AfterEvent: q.AfterEvent, Max: int32(q.Limit)} //nolint:gosec // ≤ 1001
	for id, zone := range q.Zones {
		p.EventIds, p.Zones = append(p.EventIds, id), append(p.Zones, zone)
	}
	rows, err := s.q.EventDays(ctx, s.pool, p)
	if err != nil {
		return nil, postgres.Err(fmt.Errorf("event days: %w", err))
	}
	var days []figures.EventDay
	for _, r := range rows {
		if n := len(days); n == 0 || days[n-1].EventID != r.EventID || !days[n-1].Day.Equal(r.Day) {
			days = append(days, figures.EventDay{EventID: r.EventID, Day: r.Day, Zone: q.Zones[r.EventID]})
		}
		days[len(days)-1].Set(figures.ID{Figure: figures.Figure(r.Figure), Currency: r.Currency}, figures.Sum{Amount: r.Amount, Times: r.Times})
	}
	return days, nil
}
