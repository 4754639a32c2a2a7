package event

import (
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/errs"
)

// MaxSeats is the largest venue with assigned seating. Its seats are made by one statement, which
// must end well within 5 s.
const MaxSeats = 100_000

// Spec is an event as an operator puts it.
type Spec struct {
	ID           string
	Title        string
	Artist       string
	Venue        string
	StartsAt     time.Time
	SalesOpenAt  time.Time
	SalesCloseAt time.Time
	Seating      Seating
	Currency     string
	MaxPerUser   int
	// Nil keeps the current value. For a new event, nil means this service's default for
	// HoldSeconds, and the queue's defaults for SlotSeconds and Threshold.
	HoldSeconds *int32
	SlotSeconds *int64
	Threshold   *int64
	// Nil keeps the current time zone, or means DefaultTimeZone for a new event.
	TimeZone *string
	Sections []SectionSpec
	// IfMatch, unless nil, is what the stored event must match; else the result is ErrChanged.
	IfMatch *Match
}

// SectionSpec is a section as an operator puts it: rows of seats, or a capacity.
type SectionSpec struct {
	Name        string
	Price       int64
	Rows        *int32
	SeatsPerRow *int32
	Capacity    *int64
}

// Event checks what the members demand of each other, and returns the event that the spec
// describes. The error is ErrInvalid with a field for everything that is wrong.
func (s *Spec) Event() (Event, error) {
	fields := append(s.times(), s.timeZone()...)
	sections, more := s.sections()
	if fields = append(fields, more...); len(fields) > 0 {
		return Event{}, ErrInvalid.WithFields(fields...)
	}
	e := Event{
		ID: s.ID, Title: s.Title, Artist: s.Artist, Venue: s.Venue,
		StartsAt: stored(s.StartsAt), SalesOpenAt: stored(s.SalesOpenAt), SalesCloseAt: stored(s.SalesCloseAt),
		Seating: s.Seating, Currency: s.Currency, MaxPerUser: s.MaxPerUser, State: Open, Sections: sections, TimeZone: DefaultTimeZone,
	}
	if s.TimeZone != nil {
		e.TimeZone = *s.TimeZone
	}
	if s.HoldSeconds != nil {
		e.HoldFor = time.Duration(*s.HoldSeconds) * time.Second
	}
	return e, nil
}

// stored is t as the database keeps it: to the microsecond. Otherwise a repeated PUT with
// nanoseconds would look like a change.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func (s *Spec) times() []errs.Field {
	var bad []errs.Field
	if !s.SalesCloseAt.After(s.SalesOpenAt) {
		bad = append(bad, errs.Field{Path: "salesCloseAt", Message: "must be after salesOpenAt"})
	}
	if !s.StartsAt.After(s.SalesOpenAt) {
		bad = append(bad, errs.Field{Path: "startsAt", Message: "must be after salesOpenAt"})
	}
	return bad
}

func (s *Spec) sections() ([]Section, []errs.Field) {
	var bad []errs.Field
	sections := make([]Section, len(s.Sections))
	seats := 0
	for i, spec := range s.Sections {
		path := fmt.Sprintf("sections[%d]", i)
		if slices.ContainsFunc(s.Sections[:i], func(o SectionSpec) bool { return o.Name == spec.Name }) {
			bad = append(bad, errs.Field{Path: path + ".section", Message: "must be unique"})
		}
		sections[i] = Section{Name: spec.Name, Price: spec.Price}
		if s.Seating == General {
			bad = append(bad, sections[i].setCapacity(spec, path)...)
			continue
		}
		bad = append(bad, sections[i].setRows(spec, path)...)
		sections[i].First = seats
		seats += int(sections[i].Capacity)
	}
	if seats > MaxSeats {
		bad = append(bad, errs.Field{Path: "sections", Message: fmt.Sprintf("must have at most %d seats together", MaxSeats)})
	}
	return sections, bad
}

func (s *Section) setCapacity(spec SectionSpec, path string) (bad []errs.Field) {
	if spec.Capacity == nil {
		bad = append(bad, errs.Field{Path: path + ".capacity", Message: "is required for general admission"})
	} else {
		s.Capacity = *spec.Capacity
	}
	if spec.Rows != nil || spec.SeatsPerRow != nil {
		bad = append(bad, errs.Field{Path: path + ".rows", Message: "belongs to assigned seating"})
	}
	return bad
}

func (s *Section) setRows(spec SectionSpec, path string) []errs.Field {
	if spec.Rows == nil || spec.SeatsPerRow == nil {
		return []errs.Field{{Path: path + ".rows", Message: "is required for assigned seating, with seatsPerRow"}}
	}
	s.Rows, s.SeatsPerRow = int(*spec.Rows), int(*spec.SeatsPerRow)
	s.Capacity = int64(s.Rows) * int64(s.SeatsPerRow)
	if spec.Capacity != nil && *spec.Capacity != s.Capacity {
		return []errs.Field{{Path: path + ".capacity", Message: "must be rows times seatsPerRow, or be left out"}}
	}
	return nil
}

// Changes says which parts of a stored event a new version of it changes.
type Changes struct {
	// Structure: seating, currency, and which places there are.
	Structure bool
	// Anything at all.
	Any bool
}

// Compare returns the differences between the stored event and its new version. New prices and
// capacities are no change of structure: holds keep the amount with which they were made, and the
// store refuses a capacity below what is held and sold.
func Compare(old, new *Event) Changes {
	var c Changes
	c.Structure = old.Seating != new.Seating || old.Currency != new.Currency || !samePlaces(old, new)
	c.Any = c.Structure || old.Title != new.Title || old.Artist != new.Artist || old.Venue != new.Venue ||
		!old.StartsAt.Equal(new.StartsAt) || !old.SalesOpenAt.Equal(new.SalesOpenAt) || !old.SalesCloseAt.Equal(new.SalesCloseAt) ||
		old.MaxPerUser != new.MaxPerUser || old.HoldFor != new.HoldFor || old.TimeZone != new.TimeZone || !slices.Equal(old.Sections, new.Sections)
	return c
}

func samePlaces(old, new *Event) bool {
	return slices.EqualFunc(old.Sections, new.Sections, func(a, b Section) bool {
		return a.Name == b.Name && a.Rows == b.Rows && a.SeatsPerRow == b.SeatsPerRow
	})
}
