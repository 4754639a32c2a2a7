package figures

import (
	"cmp"
	"context"
	"time"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
)

// MaxDays is the most days that one list may span.
const MaxDays = 366

// DefaultDaysPage is the length of a page of days unless the caller asks for another.
const DefaultDaysPage = 100

// DayStore reads figures by day.
type DayStore interface {
	// CountedEvents returns the ids of the events that may have figures in the days from one to
	// another, both included, in any time zone.
	CountedEvents(ctx context.Context, from, to time.Time) ([]string, error)
	EventDays(ctx context.Context, q DaysQuery) ([]EventDay, error)
}

// Zones looks up the time zones of events.
type Zones interface {
	// ZonesOf returns the time zones of events by their ids.
	ZonesOf(ctx context.Context, eventIDs []string) (map[string]string, error)
}

// Days lists figures by day, each day in the time zone of its event.
type Days struct {
	store DayStore
	zones Zones
}

// NewDays makes Days that read figures from store, and time zones from zones.
func NewDays(store DayStore, zones Zones) *Days { return &Days{store, zones} }

// DaysFilter selects a page of the days from From to To, both included. EventID is "" for all
// events.
type DaysFilter struct {
	From, To time.Time
	EventID  string
	Limit    int
	After    DayPosition // position of the previous page's last day
}

// DayPosition is the position of an event's day in a list sorted by day, then by event.
type DayPosition struct {
	Day     time.Time
	EventID string
}

// Cursor returns the position as text, with which a client asks for the next page.
func (p DayPosition) Cursor() string { return cursor.Moment(p.Day, p.EventID) }

// ParseDayCursor parses the text of Cursor, or fails with errs.ErrInvalidCursor. "" is the zero
// position.
func ParseDayCursor(text string) (p DayPosition, err error) {
	p.Day, p.EventID, err = cursor.ParseMoment(text, func(id string) bool { return id == "" || ids.ValidEventID(id) })
	return p, err
}

// List returns one page of days, and the cursor of the next page, "" at the end.
func (d *Days) List(ctx context.Context, f DaysFilter) (days []EventDay, next string, err error) {
	if f.To.Before(f.From) || f.To.Sub(f.From) >= MaxDays*24*time.Hour {
		return nil, "", errs.ErrInvalidRequest.WithFields(errs.Field{Path: "to", Message: "must be at most 365 days after from, and not before it"})
	}
	events := []string{f.EventID}
	if f.EventID == "" {
		if events, err = d.store.CountedEvents(ctx, f.From, f.To); err != nil {
			return nil, "", err
		}
	}
	zones, err := d.zones.ZonesOf(ctx, events)
	if err != nil {
		return nil, "", err
	}
	limit := cmp.Or(f.Limit, DefaultDaysPage)
	q := DaysQuery{From: f.From, To: f.To, AfterDay: f.After.Day, AfterEvent: f.After.EventID, Limit: limit + 1, Zones: zones}
	if days, err = d.store.EventDays(ctx, q); err != nil || len(days) <= limit {
		return days, "", err
	}
	last := days[limit-1]
	return days[:limit], DayPosition{last.Day, last.EventID}.Cursor(), nil
}
