package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"urr.guru/pkg/errs"
)

// MaxSeats is the largest venue with assigned seating. Its seats are made by one statement, which
// must end well within 5 s.
const MaxSeats = 100_000

// Spec is what operators set of an event. Members that may be left out are pointers.
type Spec struct {
	Title        string
	Artist       string
	Venue        string
	StartsAt     time.Time
	SalesOpenAt  time.Time
	SalesCloseAt time.Time
	Seating      Seating
	// ISO 4217.
	Currency   string
	MaxPerUser int
	// HoldSeconds is the length of a hold; nil in force: the service's default.
	HoldSeconds *int32
	// SlotSeconds and Threshold are settings of the event's line; nil in force: the queue's default.
	// Of all readers only SettingsStore.Settings sets them.
	SlotSeconds *int64
	Threshold   *int64
	// TimeZone is the IANA time zone of the venue.
	TimeZone *string
	// Sections are in the order in which the operator put them.
	Sections []Section
}

// Section is a part of the venue with one price.
type Section struct {
	Name string
	// Price in the currency's minor unit.
	Price int64
	// Capacity is what operators set with general admission, and follows from the rows otherwise.
	Capacity int64
	// Assigned seating only: rows of equally many seats, and the index of the first one.
	Rows, SeatsPerRow, First int
}

// defaults are the optional settings of a new event.
func defaults() *Spec {
	zone := DefaultTimeZone
	return &Spec{TimeZone: &zone}
}

// Complete sets the settings that the spec leaves out to those in force, or to the defaults of a new
// event when inForce is nil.
func (s *Spec) Complete(inForce *Spec) {
	if inForce == nil {
		inForce = defaults()
	}
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(inForce).Elem()
	for i := range to.NumField() {
		if member := to.Field(i); member.Kind() == reflect.Pointer && member.IsNil() {
			member.Set(from.Field(i))
		}
	}
}

// encoded is the spec as JSON: equal for equal specs.
func (s *Spec) encoded() []byte {
	b, _ := json.Marshal(s) // every member can be written
	return b
}

// Checked returns the spec as it is stored, with what follows from its members. The error is
// ErrInvalid with a field for everything that is wrong with how they fit together.
func (s Spec) Checked() (Spec, error) {
	fields := append(s.times(), s.timeZone()...)
	sections, more := s.sections()
	if fields = append(fields, more...); len(fields) > 0 {
		return Spec{}, ErrInvalid.WithFields(fields...)
	}
	s.StartsAt, s.SalesOpenAt, s.SalesCloseAt = stored(s.StartsAt), stored(s.SalesOpenAt), stored(s.SalesCloseAt)
	s.Sections = sections
	return s, nil
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
	sections := slices.Clone(s.Sections)
	seats := 0
	for i := range sections {
		section, path := &sections[i], fmt.Sprintf("sections[%d]", i)
		if slices.ContainsFunc(sections[:i], func(o Section) bool { return o.Name == section.Name }) {
			bad = append(bad, errs.Field{Path: path + ".section", Message: "must be unique"})
		}
		if s.Seating == General {
			bad = append(bad, section.checkCapacity(path)...)
			continue
		}
		bad = append(bad, section.setCapacity(path)...)
		section.First = seats
		seats += int(section.Capacity)
	}
	if seats > MaxSeats {
		bad = append(bad, errs.Field{Path: "sections", Message: fmt.Sprintf("must have at most %d seats together", MaxSeats)})
	}
	return sections, bad
}

// checkCapacity is for general admission.
func (s *Section) checkCapacity(path string) (bad []errs.Field) {
	if s.Capacity == 0 {
		bad = append(bad, errs.Field{Path: path + ".capacity", Message: "is required for general admission"})
	}
	if s.Rows != 0 || s.SeatsPerRow != 0 {
		bad = append(bad, errs.Field{Path: path + ".rows", Message: "belongs to assigned seating"})
	}
	return bad
}

// setCapacity is for assigned seating.
func (s *Section) setCapacity(path string) []errs.Field {
	if s.Rows == 0 || s.SeatsPerRow == 0 {
		return []errs.Field{{Path: path + ".rows", Message: "is required for assigned seating, with seatsPerRow"}}
	}
	seats := int64(s.Rows) * int64(s.SeatsPerRow)
	if s.Capacity != 0 && s.Capacity != seats {
		return []errs.Field{{Path: path + ".capacity", Message: "must be rows times seatsPerRow, or be left out"}}
	}
	s.Capacity = seats
	return nil
}

// Changes says which parts of a stored event a new version of it changes.
type Changes struct {
	// Structure: seating, currency, and which places there are.
	Structure bool
	// Anything at all.
	Any bool
}

// Compare returns the differences between the stored settings and new ones, but for those of the
// line, which are stored apart. New prices and capacities are no change of structure: holds keep the
// amount with which they were made, and the store refuses a capacity below what is held and sold.
func Compare(old, new Spec) Changes {
	old.SlotSeconds, old.Threshold = new.SlotSeconds, new.Threshold
	return Changes{
		Structure: old.Seating != new.Seating || old.Currency != new.Currency || !samePlaces(&old, &new),
		Any:       !bytes.Equal(old.encoded(), new.encoded()),
	}
}

func samePlaces(old, new *Spec) bool {
	return slices.EqualFunc(old.Sections, new.Sections, func(a, b Section) bool {
		return a.Name == b.Name && a.Rows == b.Rows && a.SeatsPerRow == b.SeatsPerRow
	})
}
