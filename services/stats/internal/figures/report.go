package figures

import (
	"maps"
	"slices"
	"time"
)

// ID identifies a figure. Currency is "" for a figure that is not money.
type ID struct {
	Figure   Figure
	Currency string
}

// Figures are the figures of an event, in total or in a period. A figure to which nothing was added
// is missing.
type Figures map[ID]Sum

// Count returns a figure that is not money.
func (f Figures) Count(figure Figure) int64 { return f[ID{Figure: figure}].Amount }

// Currencies returns the currencies of the figures that are money, sorted.
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

// EventFigures are the totals of an event. Updated has the time of each figure's last change.
type EventFigures struct {
	Figures

	Updated map[ID]time.Time
}

// UpdatedAt returns when one of the figures (not money) last changed; zero if none was counted.
func (e *EventFigures) UpdatedAt(figures ...Figure) (last time.Time) {
	for _, figure := range figures {
		if at := e.Updated[ID{Figure: figure}]; at.After(last) {
			last = at
		}
	}
	return last
}

// Point has an event's figures in one step of a series. At is the begin of the step.
type Point struct {
	At time.Time
	Figures
}

// Public are the figures that everybody may see.
var Public = []Figure{Created, Confirmed, Cancelled, Expired, Rejected, SeatsSold} //nolint:gochecknoglobals // never changed

// SeriesQuery asks for an event's figures from From to To (UTC), summed over steps of length Step. All
// three are whole minutes. Public selects only the figures that everybody may see.
type SeriesQuery struct {
	EventID  string
	From, To time.Time
	Step     time.Duration
	Public   bool
}

// EventDay has the figures of an event on a calendar day in its time zone. Day is midnight UTC of
// that day.
type EventDay struct {
	EventID string
	Day     time.Time
	Zone    string
	Figures
}

// DaysQuery asks for at most Limit days of events from From to To, both included, sorted by day and
// event. The first one is that after the day AfterDay of the event AfterEvent.
type DaysQuery struct {
	From, To   time.Time
	AfterDay   time.Time
	AfterEvent string
	Limit      int
	// Zones has the time zones of the events, by their ids.
	Zones map[string]string
}

// DefaultZone is the time zone of campaigns, promotions and memberships, which have none of their
// own.
const DefaultZone = "Asia/Seoul"

// Set sets a figure.
func (f *Figures) Set(id ID, s Sum) {
	if *f == nil {
		*f = Figures{}
	}
	(*f)[id] = s
}
