package events

import (
	"time"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/db"
)

func toEvent(r db.Event, sections []db.SectionsRow) event.Event {
	e := event.Event{
		ID: r.EventID, Title: r.Title, Artist: r.Artist, Venue: r.Venue,
		StartsAt: r.StartsAt.UTC(), SalesOpenAt: r.SalesOpenAt.UTC(), SalesCloseAt: r.SalesCloseAt.UTC(),
		Seating: event.Seating(r.Seating), Currency: r.Currency, MaxPerUser: int(r.MaxPerUser),
		TimeZone: r.TimeZone, HoldFor: time.Duration(orZero(r.HoldSeconds)) * time.Second,
		State: event.State(r.State), Version: r.Version, Sections: make([]event.Section, len(sections)),
	}
	for i, s := range sections {
		e.Sections[i] = event.Section{
			Name: s.Section, Price: s.Price, Capacity: s.Capacity,
			Rows: orZero(s.SeatRows), SeatsPerRow: orZero(s.SeatsPerRow), First: int(s.FirstIdx),
		}
	}
	return e
}

func orZero(n *int32) int {
	if n == nil {
		return 0
	}
	return int(*n)
}

// secondsOrNull is NULL for a duration that is not set.
func secondsOrNull(d time.Duration) *int32 {
	if d == 0 {
		return nil
	}
	n := int32(d / time.Second) //nolint:gosec // ≤ 3600
	return &n
}
