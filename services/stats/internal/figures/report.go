package figures

import (
	"maps"
	"slices"
	"time"
)

// ID names a figure, and the currency of one that is money.
type ID struct {
	Figure   Figure
	Currency string
}

// Figures are the figures of an event, or of a part of its time. Those that nothing added to are
// missing.
type Figures map[ID]Sum

// Count returns a figure that is no money.
func (f Figures) Count(figure Figure) int64 { return f[ID{Figure: figure}].Amount }

// Currencies returns the currencies in which there is money, sorted.
func (f Figures) Currencies() []string {
	found := make(map[string]bool)
	for id := range f {
		if id.Currency != "" {
			found[id.Currency] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Revenue returns the revenue in a currency.
func (f Figures) Revenue(currency string) Revenue {
	r := Revenue{Currency: currency}
	for id, sum := range f {
		if id.Currency == currency {
			r.add(id.Figure, sum)
		}
	}
	return r
}

// EventFigures are the totals of an event. Updated has when each figure last changed.
type EventFigures struct {
	Figures

	Updated map[ID]time.Time
}

// UpdatedAt returns when the last of some figures that are no money changed; zero: none was counted.
func (e *EventFigures) UpdatedAt(figures ...Figure) (last time.Time) {
	for _, figure := range figures {
		if at := e.Updated[ID{Figure: figure}]; at.After(last) {
			last = at
		}
	}
	return last
}

// Point is a part of an event's series: the figures of the time that begins At.
type Point struct {
	At time.Time
	Figures
}

// SeriesQuery asks for an event's figures from a time to another, in steps; both are whole minutes,
// and steps are. No Only means all figures.
type SeriesQuery struct {
	EventID  string
	From, To time.Time
	Step     time.Duration
	Only     []Figure
}

// EventDay has the figures of an event on a calendar day in its time zone. Day is midnight UTC of
// that day.
type EventDay struct {
	EventID string
	Day     time.Time
	Zone    string
	Figures
}

// DaysQuery asks for the days of events, sorted by day and event: at most Limit from one day to
// another, both included, that come after a position.
type DaysQuery struct {
	From, To   time.Time
	AfterDay   time.Time
	AfterEvent string
	Limit      int
	// Zones has the time zones of the events, by their ids.
	Zones map[string]string
}

// DefaultZone is the time zone of the days of what has none of its own: campaigns, promotions and
// memberships.
const DefaultZone = "Asia/Seoul"

// Set sets a figure.
func (f *Figures) Set(id ID, s Sum) {
	if *f == nil {
		*f = Figures{}
	}
	(*f)[id] = s
}
