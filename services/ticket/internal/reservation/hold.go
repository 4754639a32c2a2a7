package reservation

import (
	"slices"
	"time"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/purchase"
)

// SeatsRequest asks for certain seats, all of them or none.
type SeatsRequest struct {
	EventID, UserID, SlotID string
	Contact                 purchase.Contact
	SeatIDs                 []string
	// SkipLocked: a seat that another transaction has locked counts as taken. Otherwise the request
	// waits for the lock.
	SkipLocked bool
	// IdempotencyKey is nil when the client sent none.
	IdempotencyKey *idempotency.Key
	PresaleRight
}

// PresaleRight is what decides whether a user may hold places in a presale.
type PresaleRight struct {
	// Claims are the identity provider's claims about the user, each as "name=value".
	Claims []string
	// Entitled is set by the Service: the user has an entitlement for the event's presale.
	Entitled bool
}

// BestRequest asks for a number of places of a section: its best free seats, or general admission.
type BestRequest struct {
	EventID, UserID, SlotID string
	Contact                 purchase.Contact
	Section                 string
	Quantity                int
	// Adjacent requires seats next to each other in one row. It is ignored for general admission.
	Adjacent bool
	// IdempotencyKey is nil when the client sent none.
	IdempotencyKey *idempotency.Key
	PresaleRight
}

// LockedSale is the state of an event's sale, read by a transaction after it has locked the users
// whose requests it answers.
type LockedSale struct {
	EventID  string
	Seating  event.Seating
	Sale     event.Sale
	Currency string
	// HoldFor is the length of new holds.
	HoldFor time.Duration
	Now     time.Time
	// Records has what limits each user.
	Records map[string]event.Record
}

// checkLimits checks what limits the number of a user's places, and pauses between holds.
func (s *LockedSale) checkLimits(user string, wanted int) error {
	r := s.Records[user]
	if err := r.CheckLimits(&s.Sale, s.Now, wanted); err != nil {
		return err
	}
	return r.CheckPause(s.Now)
}

// CheckSeating returns event.ErrSeatingMismatch when no section of the event has this seating.
func (s *LockedSale) CheckSeating(wanted event.Seating) error {
	if s.Seating != wanted && s.Seating != event.Mixed {
		return event.ErrSeatingMismatch
	}
	return nil
}

// hold makes a held reservation of r (user, section, seats, amount), and adds its places to the
// user's record.
func (s *LockedSale) hold(r Reservation) *Reservation {
	r.ID, r.EventID, r.Currency = NewID(), s.EventID, s.Currency
	record := s.Records[r.UserID]
	record.Used += int64(r.Quantity)
	record.InSeries += int64(r.Quantity)
	s.Records[r.UserID] = record
	return NewHeld(r, s.HoldFor, s.Now)
}

// GeneralSale is the state of an event's sections without seats, read after they were locked.
type GeneralSale struct {
	LockedSale

	// Free has the number of free places of each section that exists. Seated lists the sections that
	// are sold by seat.
	Free         map[string]int64
	Seated       []string
	Prices, Fees map[string]int64 // by section
}

// Allot reserves the places of a request. A refused request changes nothing. Allot must be called
// for requests in the order of their arrival.
func (g *GeneralSale) Allot(req BestRequest) (*Reservation, error) {
	if err := g.Sale.CheckOpen(g.Now, req.Entitled); err != nil {
		return nil, err
	}
	if slices.Contains(g.Seated, req.Section) {
		return nil, event.ErrSeatingMismatch
	}
	free, ok := g.Free[req.Section]
	if !ok {
		return nil, event.ErrSectionNotFound
	}
	if err := g.checkLimits(req.UserID, req.Quantity); err != nil {
		return nil, err
	}
	if free < int64(req.Quantity) {
		return nil, ErrSoldOut
	}
	g.Free[req.Section] -= int64(req.Quantity)
	fee := g.Fees[req.Section] * int64(req.Quantity)
	return g.hold(Reservation{
		UserID: req.UserID, Contact: req.Contact, SlotID: req.SlotID, Section: req.Section, Quantity: req.Quantity, Fee: fee,
		Amount: g.Prices[req.Section]*int64(req.Quantity) + fee,
	}), nil
}

// Release adds the places of expired holds to the free places.
func (g *GeneralSale) Release(expired []*Reservation) {
	for _, r := range expired {
		g.Free[r.Section] += int64(r.Quantity)
	}
}

// HasFree reports whether each section has at least the wanted number of free places.
func (g *GeneralSale) HasFree(wanted map[string]int64) bool {
	for section, n := range wanted {
		if g.Free[section] < n {
			return false
		}
	}
	return true
}
