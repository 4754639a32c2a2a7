package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
	_ "time/tzdata" // the container image has no time zone database

	"urr.guru/pkg/currency"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/text"
)

const (
	// MaxSeats is the most seats of an event. One statement inserts all, and must end well within 5 s.
	MaxSeats = 100_000
	// defaultTimeZone is the time zone of events for which operators have set none.
	defaultTimeZone = "Asia/Seoul"
	// defaultReturnWithin is the default of Spec.ReturnWithin: 20 min, in seconds.
	defaultReturnWithin = 1200
)

// Spec has the settings of an event that operators choose. Fields that a request may leave out are
// pointers.
type Spec struct {
	Title        string
	Artist       string
	Venue        string
	StartsAt     time.Time
	SalesOpenAt  time.Time
	SalesCloseAt time.Time
	// Seating follows from the sections. A request may set it to demand that all sections are
	// ASSIGNED, or that all are GENERAL.
	Seating Seating
	// Currency is an ISO 4217 code.
	Currency   string
	MaxPerUser int
	// HoldSeconds is the length of a hold; nil in a stored event: the service's default.
	HoldSeconds *int32
	// SlotSeconds and Threshold are settings of the event's line; nil in a stored event: the defaults
	// of the queue service. They are read only by SettingsStore.Settings.
	SlotSeconds *int64
	Threshold   *int64
	// TimeZone is the IANA time zone of the venue.
	TimeZone *string
	// DoorsAt is when doors open; nil: the operator has not set it.
	DoorsAt *time.Time
	// ClosesAt is the end of refunds and transfers; nil: DoorsAt, or an hour before the start.
	ClosesAt *time.Time
	// UserRefunds says until when users may give tickets back; nil: until ClosesAt.
	UserRefunds *UserRefunds
	// ReturnWithin is the time in seconds within which places that are given back are for sale again.
	ReturnWithin *int32
	// ReturnsTo says who gets places that are given back before the end of the sale and of refunds.
	ReturnsTo *ReturnsTo
	// SeriesID groups the events of one show on several dates; empty: no group. MaxPerUserInSeries
	// limits a user's places in all these events together; 0: only MaxPerUser per event applies.
	SeriesID           *string
	MaxPerUserInSeries *int32
	// MaxReturnsPerUser is how many places a user may give back and buy others; 0: three times
	// MaxPerUser.
	MaxReturnsPerUser *int32
	// Transferable says whether holders may pass tickets on.
	Transferable *Transferable
	// CodesFrom is a number of hours before the doors open. From then on e-mails contain the codes of
	// tickets that cannot be passed on; 0: never.
	CodesFrom *int32
	// StatementSuffix is what cards' statements name after the prefix of the account at Stripe, such as
	// SHOP* AUTUMN; empty: Stripe's default.
	StatementSuffix *string
	// CancellationFees say what the organiser keeps of the price of tickets that users give back.
	CancellationFees *CancellationFees
	Presale          *Presale
	// Expected is the crowd that is expected when the sale, or its presale, opens.
	Expected *plan.Expected
	// Sections are in the order in which the operator put them.
	Sections []Section
}

// Transferable says whether holders of tickets may pass them on to others, and how.
type Transferable string

// TransferFree allows gifts only; TransferPriced also prices up to the face value.
const (
	TransferNone   Transferable = "NONE"
	TransferFree   Transferable = "FREE"
	TransferPriced Transferable = "PRICED"
)

// ReturnsTo says who gets places that are given back: the sale, or the organiser (the house).
type ReturnsTo string

// The values of ReturnsTo.
const (
	ReturnsToSale  ReturnsTo = "SALE"
	ReturnsToHouse ReturnsTo = "HOUSE"
)

// UserRefunds says until when users may give tickets back, or (None) that they may not at all.
type UserRefunds struct {
	None  bool
	Until time.Time
}

// Closing returns when refunds and transfers end: the times of the spec, or defaults.
func (s *Spec) Closing() AfterSaleTerms {
	c := AfterSaleTerms{ClosesAt: s.StartsAt.Add(-time.Hour), UserRefunds: true}
	switch {
	case s.ClosesAt != nil:
		c.ClosesAt = *s.ClosesAt
	case s.DoorsAt != nil:
		c.ClosesAt = *s.DoorsAt
	}
	c.RefundUntil = c.ClosesAt
	if r := s.UserRefunds; r != nil {
		c.UserRefunds = !r.None
		if !r.None && r.Until.Before(c.ClosesAt) {
			c.RefundUntil = r.Until
		}
	}
	return c
}

// CheckComplete checks rules between optional fields of a completed spec. The error is ErrInvalid.
func (s *Spec) CheckComplete() error {
	if *s.MaxPerUserInSeries > 0 && *s.SeriesID == "" {
		return ErrInvalid.WithFields(errs.Field{Path: "maxPerUserInSeries", Message: "needs a seriesId"})
	}
	if bad := s.Presale.check(s.SalesOpenAt); len(bad) > 0 {
		return ErrInvalid.WithFields(bad...)
	}
	return s.CheckClosing()
}

// CheckClosing checks the times at which doors open and refunds end, of a completed spec. The error
// is ErrInvalid with a field for each broken rule.
func (s *Spec) CheckClosing() error {
	var bad []errs.Field
	if s.DoorsAt != nil && s.DoorsAt.After(s.StartsAt) {
		bad = append(bad, errs.Field{Path: "doorsAt", Message: "must not be after startsAt"})
	}
	if s.ClosesAt != nil && s.ClosesAt.After(s.StartsAt) {
		bad = append(bad, errs.Field{Path: "closesAt", Message: "must not be after startsAt"})
	}
	if r := s.UserRefunds; r != nil && !r.None && r.Until.After(s.Closing().ClosesAt) {
		bad = append(bad, errs.Field{Path: "refundUntil", Message: "must not be after closesAt (by default when doors open, or an hour before the start)"})
	}
	if len(bad) > 0 {
		return ErrInvalid.WithFields(bad...)
	}
	return nil
}

// MovedTimes returns which of the times that matter to buyers differ between old and new: the
// start, the doors, and the end of refunds.
func MovedTimes(old, new *Spec) (moved []string) {
	if !old.StartsAt.Equal(new.StartsAt) {
		moved = append(moved, "startsAt")
	}
	if !sameTime(old.DoorsAt, new.DoorsAt) {
		moved = append(moved, "doorsAt")
	}
	if !old.Closing().ClosesAt.Equal(new.Closing().ClosesAt) {
		moved = append(moved, "closesAt")
	}
	return moved
}

func sameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// Section is a part of the venue with one price.
type Section struct {
	Name string
	// Price is in the currency's minor unit; Fee is paid on top of it.
	Price, Fee int64
	// Capacity is set by operators with general admission, and computed from the rows otherwise.
	Capacity int64
	// Rows and SeatsPerRow are set with assigned seating only. First is the index of the section's
	// first seat among all seats of the event.
	Rows, SeatsPerRow, First int
}

// Seating returns how places of the section are sold.
func (s *Section) Seating() Seating {
	if s.Rows > 0 {
		return Assigned
	}
	return General
}

// defaults returns the default values of the optional settings of a new event.
func defaults() *Spec {
	return &Spec{
		TimeZone: new(defaultTimeZone), ReturnWithin: new(int32(defaultReturnWithin)), ReturnsTo: new(ReturnsToSale), SeriesID: new(""), MaxPerUserInSeries: new(int32(0)),
		MaxReturnsPerUser: new(int32(0)), Transferable: new(TransferNone), CodesFrom: new(int32(0)), StatementSuffix: new(""), CancellationFees: new(CancellationFees{}), Presale: new(Presale{}),
		Expected: new(plan.Expected{}),
	}
}

// Complete fills the settings that the spec leaves out from current, or with the defaults of a new
// event when current is nil.
func (s *Spec) Complete(current *Spec) {
	if current == nil {
		current = defaults()
	}
	target, source := reflect.ValueOf(s).Elem(), reflect.ValueOf(current).Elem()
	for i := range target.NumField() {
		if field := target.Field(i); field.Kind() == reflect.Pointer && field.IsNil() {
			field.Set(source.Field(i))
		}
	}
}

// encoded returns the spec as JSON, which is equal for equal specs.
func (s *Spec) encoded() []byte {
	b, _ := json.Marshal(s) // every field can be encoded
	return b
}

// Validated returns the spec as it is stored, with computed fields set. The error is ErrInvalid
// with an entry for each rule that is broken.
func (s Spec) Validated() (Spec, error) {
	fields := append(s.checkTimes(), s.checkTimeZone()...)
	fields = append(append(fields, s.CancellationFees.check()...), s.checkStatement()...)
	if s.Expected != nil {
		fields = append(fields, s.Expected.Check()...)
	}
	if !text.HasVisible(s.Title) {
		fields = append(fields, errs.Field{Path: "title", Message: "must have a visible character"})
	}
	if !currency.Known(s.Currency) {
		fields = append(fields, errs.Field{Path: "currency", Message: "must be a code of ISO 4217, such as KRW"})
	}
	sections, bad := s.validatedSections()
	if fields = append(fields, bad...); len(fields) > 0 {
		return Spec{}, ErrInvalid.WithFields(fields...)
	}
	s.Seating = seatingOf(sections)
	s.StartsAt, s.SalesOpenAt, s.SalesCloseAt = toMicroseconds(s.StartsAt), toMicroseconds(s.SalesOpenAt), toMicroseconds(s.SalesCloseAt)
	if s.DoorsAt != nil {
		s.DoorsAt = new(toMicroseconds(*s.DoorsAt))
	}
	if s.ClosesAt != nil {
		s.ClosesAt = new(toMicroseconds(*s.ClosesAt))
	}
	if r := s.UserRefunds; r != nil && !r.None {
		s.UserRefunds = &UserRefunds{Until: toMicroseconds(r.Until)}
	}
	s.CancellationFees, s.Presale = s.CancellationFees.stored(), s.Presale.stored()
	s.Sections = sections
	return s, nil
}

// toMicroseconds truncates t to what the database stores. Otherwise a repeated PUT with nanoseconds
// would look like a change.
func toMicroseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// checkTimeZone checks that the time zone exists. The validation rules of the request refuse names
// that depend on the machine, such as "Local".
func (s *Spec) checkTimeZone() []errs.Field {
	if s.TimeZone == nil {
		return nil
	}
	if _, err := time.LoadLocation(*s.TimeZone); err != nil {
		return []errs.Field{{Path: "timeZone", Message: "must be an IANA time zone, such as Asia/Seoul"}}
	}
	return nil
}

func (s *Spec) checkTimes() (bad []errs.Field) {
	if !s.SalesCloseAt.After(s.SalesOpenAt) {
		bad = append(bad, errs.Field{Path: "salesCloseAt", Message: "must be after salesOpenAt"})
	}
	if !s.StartsAt.After(s.SalesOpenAt) {
		bad = append(bad, errs.Field{Path: "startsAt", Message: "must be after salesOpenAt"})
	}
	return bad
}

func (s *Spec) validatedSections() (sections []Section, bad []errs.Field) {
	sections = slices.Clone(s.Sections)
	seats := 0
	for i := range sections {
		section, path := &sections[i], fmt.Sprintf("sections[%d]", i)
		if slices.ContainsFunc(sections[:i], func(o Section) bool { return o.Name == section.Name }) {
			bad = append(bad, errs.Field{Path: path + ".section", Message: "must be unique"})
		}
		bySeat := s.Seating == Assigned || s.Seating != General && (section.Rows != 0 || section.SeatsPerRow != 0)
		if !bySeat {
			bad = append(bad, section.checkCapacity(path)...)
			continue
		}
		bad = append(bad, section.setCapacity(path)...)
		section.First = seats
		seats += section.Rows * section.SeatsPerRow
	}
	if seats > MaxSeats {
		bad = append(bad, errs.Field{Path: "sections", Message: fmt.Sprintf("must have at most %d seats together", MaxSeats)})
	}
	return sections, bad
}

// seatingOf returns the seating of an event with these sections.
func seatingOf(sections []Section) (seating Seating) {
	for i := range sections {
		kind := sections[i].Seating()
		if seating != "" && seating != kind {
			return Mixed
		}
		seating = kind
	}
	return seating
}

// checkCapacity checks a section of general admission.
func (s *Section) checkCapacity(path string) (bad []errs.Field) {
	if s.Capacity == 0 {
		bad = append(bad, errs.Field{Path: path + ".capacity", Message: "is required for general admission"})
	}
	if s.Rows != 0 || s.SeatsPerRow != 0 {
		bad = append(bad, errs.Field{Path: path + ".rows", Message: "belongs to assigned seating"})
	}
	return bad
}

// setCapacity checks a section of assigned seating, and computes its capacity.
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

// Changes says what a new version of an event changes.
type Changes struct {
	// Structure is true when the seating, the currency or the set of places changes.
	Structure bool
	// Any is true when any setting changes.
	Any bool
}

// Compare compares stored settings with new ones, except those of the line, which are stored
// separately. New prices and capacities do not change the structure: holds keep their amount, and
// the store refuses a capacity below the number of held and sold places.
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
