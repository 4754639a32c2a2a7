// Package event has the events, with their sections and seats, as visitors and operators see and
// change them.
package event

import (
	"math/rand/v2"
	"time"
)

// Seating says how places are sold.
type Seating string

// The kinds of seating, of a section or of all sections of an event.
const (
	Assigned Seating = "ASSIGNED" // every seat has a row and a number
	General  Seating = "GENERAL"  // a number of places per section
	Mixed    Seating = "MIXED"    // of an event: some sections are sold by seat, others are not
)

// State is an event's state as operators set it: the sale is open or paused, or it is cancelled.
type State string

// The states. CANCELLED can be undone. When the refunds begin, CANCELLED becomes ENDED, which
// cannot be undone.
const (
	Open      State = "OPEN"
	Paused    State = "PAUSED"
	Cancelled State = "CANCELLED"
	Ended     State = "ENDED"
)

// TakesPlace reports whether the event is neither cancelled nor ended by its refunds.
func (s State) TakesPlace() bool { return s != Cancelled && s != Ended }

// Status is what visitors see of a sale. It is computed from the state, the clock and the number of
// sold places.
type Status string

// The statuses of an event.
const (
	StatusScheduled Status = "SCHEDULED"
	StatusPresale   Status = "PRESALE"
	StatusOnSale    Status = "ON_SALE"
	StatusPaused    Status = "PAUSED"
	StatusSoldOut   Status = "SOLD_OUT"
	StatusClosed    Status = "CLOSED"
	StatusCancelled Status = "CANCELLED"
)

// Event is one event with its current settings.
type Event struct {
	ID string
	Spec
	History
	State State
	// Version grows with every change.
	Version int64
}

// History has the times that a postponement or cancellation has set; zero: there was none.
type History struct {
	// PostponedFrom is the event's start before its latest postponement. Because of it, users who
	// give tickets back before FeesUntil get the fee back too, of those that were sold before it.
	PostponedFrom, FeesUntil time.Time
	// RefundsAt is when the refunds of a cancelled event begin, or have begun.
	RefundsAt time.Time
}

// AfterSaleTerms has the settings of an event that decide whether a payment still becomes tickets, and
// whether tickets can be given back. A transaction reads them after it has locked the event.
type AfterSaleTerms struct {
	State State
	// ClosesAt is the end of refunds and transfers; after it doors get lists of the valid tickets.
	ClosesAt time.Time
	// RefundUntil is the end of refunds by users. UserRefunds is false if they get no refunds at all.
	RefundUntil time.Time
	UserRefunds bool
	// FeesUntil is the time before which users get price and fee back for what was sold before the
	// event was postponed, at PostponedAt.
	FeesUntil, PostponedAt time.Time
	// CancellationFees are what the organiser keeps, besides the fee, if a user gives a ticket back.
	CancellationFees CancellationFees
	// Transferable says whether holders may pass tickets on.
	Transferable Transferable
	// SalesCloseAt is the end of the sale.
	SalesCloseAt time.Time
	// ReturnsTo says who gets places that are given back.
	ReturnsTo ReturnsTo
	// ReturnWithin is the longest time until a place given back is for sale again; 0: at once.
	ReturnWithin time.Duration
}

// KeepsReturns reports whether the organiser gets a place that is given back at this time: nothing is
// sold any more, or doors may have its old ticket on their lists, or the event's settings say so.
func (c *AfterSaleTerms) KeepsReturns(at time.Time) bool {
	return c.ReturnsTo == ReturnsToHouse || !at.Before(c.SalesCloseAt) || !at.Before(c.ClosesAt)
}

// ReleaseAt returns when a place that is given back now is for sale again; zero: at once. It is
// random, so that no user can give a seat back for another to buy at a known second. If the section
// is scarce, it is never at once: a buyer could see which place comes back.
func (c *AfterSaleTerms) ReleaseAt(now time.Time, scarce bool) time.Time {
	within := c.ReturnWithin
	if within <= 0 && scarce {
		within = defaultReturnWithin * time.Second
	}
	if within <= 0 {
		return time.Time{}
	}
	least := within / 10
	return now.Add(least + rand.N(within-least)) //nolint:gosec // the generator is seeded anew by each process
}

// Count counts places of a section. Taken counts all that are not free. Sold counts the same places
// without the held ones: places that are sold, kept by the organiser, or given back.
type Count struct{ Taken, Sold int64 }

// Counts are the counts of an event by section. A section without taken places may be missing.
type Counts map[string]Count

// Free returns the number of free places of each section, in the order of e.Sections. It is never
// negative, although counts may have been read at another time than the capacities.
func (e *Event) Free(counts Counts) []int64 {
	free := make([]int64, len(e.Sections))
	for i, s := range e.Sections {
		free[i] = max(0, s.Capacity-counts[s.Name].Taken)
	}
	return free
}
