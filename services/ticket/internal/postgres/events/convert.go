package events

import (
	"encoding/json"
	"time"

	"urr.guru/pkg/plan"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

func toEvent(r db.Event, sections []db.SectionsRow) event.Event {
	e := event.Event{ID: r.EventID, State: event.State(r.State), Version: r.Version, History: event.History{
		PostponedFrom: postgres.TimeOrZero(r.PostponedFrom), FeesUntil: postgres.TimeOrZero(r.FeesUntil), RefundsAt: postgres.TimeOrZero(r.RefundAfter),
	}, Spec: event.Spec{
		Title: r.Title, Artist: r.Artist, Venue: r.Venue,
		StartsAt: r.StartsAt.UTC(), SalesOpenAt: r.SalesOpenAt.UTC(), SalesCloseAt: r.SalesCloseAt.UTC(),
		Seating: event.Seating(r.Seating), Currency: r.Currency, MaxPerUser: int(r.MaxPerUser),
		HoldSeconds: r.HoldSeconds, TimeZone: &r.TimeZone, DoorsAt: utc(r.DoorsAt), ClosesAt: utc(r.ClosesAt),
		ReturnWithin: &r.ReturnWithin, ReturnsTo: new(event.ReturnsTo(r.ReturnsTo)), MaxReturnsPerUser: new(int32(orZero(r.MaxReturnsPerUser))), //nolint:gosec // ≤ 100,000
		SeriesID: new(postgres.OrEmpty(r.SeriesID)), MaxPerUserInSeries: new(int32(orZero(r.MaxPerUserInSeries))), //nolint:gosec // ≤ 1000
		Transferable:     new(event.Transferable(r.Transferable)),
		CodesFrom:        &r.CodesFrom,
		StatementSuffix:  &r.StatementSuffix,
		CancellationFees: new(postgres.CancellationFees(r.CancellationUntil, r.CancellationPercents)),
		Presale:          toPresale(&r),
		Expected:         &plan.Expected{Visitors: r.ExpectedVisitors, WithinSeconds: int64(r.ExpectedWithin)},
		Sections:         make([]event.Section, len(sections)),
	}}
	switch {
	case !r.UserRefunds:
		e.UserRefunds = &event.UserRefunds{None: true}
	case r.RefundUntil != nil:
		e.UserRefunds = &event.UserRefunds{Until: r.RefundUntil.UTC()}
	}
	for i, s := range sections {
		e.Sections[i] = event.Section{
			Name: s.Section, Price: s.Price, Fee: s.Fee, Capacity: s.Capacity,
			Rows: orZero(s.SeatRows), SeatsPerRow: orZero(s.SeatsPerRow), First: int(s.FirstIdx),
		}
	}
	return e
}

func toPresale(r *db.Event) *event.Presale {
	p := &event.Presale{OpensAt: postgres.TimeOrZero(r.PresaleOpensAt), MaxPerUser: int32(orZero(r.PresaleMaxPerUser))} //nolint:gosec // ≤ 1000
	if p.Exists() {
		_ = json.Unmarshal(r.PresaleWays, &p.Ways) // cannot fail: toRow wrote this JSON
	}
	return p
}

// orNull returns nil, which is stored as NULL, for the zero time.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

func orZero(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// toRow converts an event to the parameters of the statements InsertEvent and UpdateEvent.
func toRow(e *event.Event) db.InsertEventParams {
	row := db.InsertEventParams{
		EventID: e.ID, Title: e.Title, Artist: e.Artist, Venue: e.Venue,
		StartsAt: e.StartsAt, SalesOpenAt: e.SalesOpenAt, SalesCloseAt: e.SalesCloseAt,
		Seating: string(e.Seating), Currency: e.Currency, MaxPerUser: int32(e.MaxPerUser), //nolint:gosec // ≤ 1000
		HoldSeconds: e.HoldSeconds, TimeZone: *e.TimeZone, DoorsAt: e.DoorsAt, ClosesAt: e.ClosesAt, UserRefunds: true,
		ReturnWithin: *e.ReturnWithin, ReturnsTo: string(*e.ReturnsTo), CancellationUntil: []time.Time{}, CancellationPercents: []int32{},
		Transferable: string(*e.Transferable), PresaleWays: []byte("[]"), CodesFrom: *e.CodesFrom, StatementSuffix: *e.StatementSuffix,
		ExpectedVisitors: e.Expected.Visitors, ExpectedWithin: int32(e.Expected.WithinSeconds), //nolint:gosec // ≤ 86,400
	}
	if p := e.Presale; p.Exists() {
		row.PresaleOpensAt = &p.OpensAt
		row.PresaleWays, _ = json.Marshal(p.Ways) // cannot fail: every field has a JSON form
		if p.MaxPerUser > 0 {
			row.PresaleMaxPerUser = &p.MaxPerUser
		}
	}
	for _, f := range *e.CancellationFees {
		row.CancellationUntil, row.CancellationPercents = append(row.CancellationUntil, f.Until), append(row.CancellationPercents, f.Percent)
	}
	if *e.SeriesID != "" {
		row.SeriesID = e.SeriesID
	}
	if *e.MaxPerUserInSeries > 0 {
		row.MaxPerUserInSeries = e.MaxPerUserInSeries
	}
	if *e.MaxReturnsPerUser > 0 {
		row.MaxReturnsPerUser = e.MaxReturnsPerUser
	}
	if r := e.UserRefunds; r != nil {
		row.UserRefunds = !r.None
		if !r.None {
			row.RefundUntil = &r.Until
		}
	}
	return row
}
