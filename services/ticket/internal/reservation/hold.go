package reservation

import (
	"strconv"
	"time"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
)

// SeatsRequest asks for named seats, all of them or none.
type SeatsRequest struct {
	EventID, UserID, SlotID string
	SeatIDs                 []string
	// SkipLocked: a seat that another transaction has locked counts as taken; else the request
	// waits for it.
	SkipLocked bool
	// IdempotencyKey is nil when the client sent none.
	IdempotencyKey *idempotency.Key
}

// BestRequest asks for a number of places of a section: the best that are free, or general
// admissions.
type BestRequest struct {
	EventID, UserID, SlotID string
	Section                 string
	Quantity                int
	// Adjacent: the seats must be next to each other in one row. Ignored for general admission.
	Adjacent bool
	// IdempotencyKey is nil when the client sent none.
	IdempotencyKey *idempotency.Key
}

// CheckLimit is ErrLimitExceeded when a user who has bought or holds used places may not have want
// more.
func CheckLimit(used int64, want, limit int) error {
	if used+int64(want) <= int64(limit) {
		return nil
	}
	return ErrLimitExceeded.With("limit", strconv.Itoa(limit)).With("used", strconv.FormatInt(used, 10))
}

// LockedSale is what decisions about all holds of an event need to know while their users are
// locked.
type LockedSale struct {
	EventID  string
	Seating  event.Seating
	Sale     event.Sale
	Currency string
	// HoldFor is how long new holds live.
	HoldFor time.Duration
	Now     time.Time
	// Used is what each user has bought or holds.
	Used map[string]int64
}

// CheckSeating is event.ErrSeatingMismatch when the event is not sold in this way.
func (s *LockedSale) CheckSeating(want event.Seating) error {
	if s.Seating != want {
		return event.ErrSeatingMismatch
	}
	return nil
}

// hold makes a reservation, which counts as used from now on.
func (s *LockedSale) hold(h Hold) *Reservation {
	h.ID, h.EventID, h.Currency, h.For = NewID(), s.EventID, s.Currency, s.HoldFor
	s.Used[h.UserID] += int64(h.Quantity)
	return NewHeld(h, s.Now)
}

// GeneralSale is the state of an event with general admission while its sections are locked.
type GeneralSale struct {
	LockedSale

	// Free places by section; a section that is missing does not exist.
	Free map[string]int64
	// Prices of the sections.
	Prices map[string]int64
}

// Allot gives a request its places, or returns why not. It is called in the order of arrival; a
// refused request takes nothing.
func (g *GeneralSale) Allot(req BestRequest) (*Reservation, error) {
	if err := g.Sale.Admits(g.Now); err != nil {
		return nil, err
	}
	free, ok := g.Free[req.Section]
	if !ok {
		return nil, event.ErrSectionNotFound
	}
	if err := CheckLimit(g.Used[req.UserID], req.Quantity, g.Sale.MaxPerUser); err != nil {
		return nil, err
	}
	if free < int64(req.Quantity) {
		return nil, ErrSoldOut
	}
	g.Free[req.Section] -= int64(req.Quantity)
	return g.hold(Hold{
		UserID: req.UserID, SlotID: req.SlotID, Section: req.Section, Quantity: req.Quantity, Amount: g.Prices[req.Section] * int64(req.Quantity),
	}), nil
}

// Release makes the places of expired holds free.
func (g *GeneralSale) Release(expired []*Reservation) {
	for _, r := range expired {
		g.Free[r.Section] += int64(r.Quantity)
	}
}

// Suffices reports whether there are as many free places as are wanted, by section.
func (g *GeneralSale) Suffices(wanted map[string]int64) bool {
	for section, n := range wanted {
		if g.Free[section] < n {
			return false
		}
	}
	return true
}
