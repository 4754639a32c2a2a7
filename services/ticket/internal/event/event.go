// Package event is what is on sale: events, their sections and seats, and what can be seen of them.
package event

import (
	"time"
)

// Seating says how places are sold.
type Seating string

// The two kinds of seating.
const (
	Assigned Seating = "ASSIGNED" // every seat has a row and a number
	General  Seating = "GENERAL"  // a number of admissions per section
)

// State is what operators did to a sale.
type State string

// The states of a sale.
const (
	Open      State = "OPEN"
	Paused    State = "PAUSED"
	Cancelled State = "CANCELLED"
)

// Status is what visitors see: the state, the clock and the free seats together.
type Status string

// The statuses of an event.
const (
	StatusScheduled Status = "SCHEDULED"
	StatusOnSale    Status = "ON_SALE"
	StatusPaused    Status = "PAUSED"
	StatusSoldOut   Status = "SOLD_OUT"
	StatusClosed    Status = "CLOSED"
	StatusCancelled Status = "CANCELLED"
)

// Event is one event with its sections, in the order in which the operator put them.
type Event struct {
	ID           string
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
	// HoldFor is how long a hold lives; 0: the service's default.
	HoldFor  time.Duration
	State    State
	Sections []Section
}

// Section is a part of the venue with one price.
type Section struct {
	Name string
	// Price in the currency's minor unit.
	Price    int64
	Capacity int64
	// Assigned seating only: rows of equally many seats, and the index of the first one.
	Rows, SeatsPerRow, First int
}

// Sale is what a hold needs to know of an event's sale.
type Sale struct {
	State      State
	OpenAt     time.Time
	CloseAt    time.Time
	MaxPerUser int
}

// Sale returns the event's.
func (e *Event) Sale() Sale {
	return Sale{State: e.State, OpenAt: e.SalesOpenAt, CloseAt: e.SalesCloseAt, MaxPerUser: e.MaxPerUser}
}

// Admits is nil while the sale is on; else ErrCancelled, or ErrSaleNotOpen with saleStatus and salesOpenAt.
func (s Sale) Admits(now time.Time) error {
	var status Status
	switch {
	case s.State == Cancelled:
		return ErrCancelled
	case !now.Before(s.CloseAt):
		status = StatusClosed
	case s.State == Paused:
		status = StatusPaused
	case now.Before(s.OpenAt):
		status = StatusScheduled
	default:
		return nil
	}
	return ErrSaleNotOpen.With("saleStatus", string(status)).With("salesOpenAt", s.OpenAt.UTC().Format(time.RFC3339))
}

// Status is the event's at a moment at which that many places are free.
func (e *Event) Status(now time.Time, free int64) Status {
	switch {
	case e.State == Cancelled:
		return StatusCancelled
	case !now.Before(e.SalesCloseAt):
		return StatusClosed
	case e.State == Paused:
		return StatusPaused
	case now.Before(e.SalesOpenAt):
		return StatusScheduled
	case free <= 0:
		return StatusSoldOut
	default:
		return StatusOnSale
	}
}

// LineSettings are the durable settings of a waiting line. Any event id may have them, also one that is not on sale here.
type LineSettings struct {
	EventID string
	// Threshold is how many may be inside at once, SlotSeconds how long; nil: the queue's default.
	Threshold   *int64
	SlotSeconds *int64
	// ClosesAt is the end of the sale, when all slots end; nil when the event is not on sale here.
	ClosesAt     *time.Time
	Paused       bool
	BlockedUsers []string
}

// LineChange changes those settings of a line that are not nil; BlockUser, unless empty, joins the blocked ones.
type LineChange struct {
	Threshold *int64
	Paused    *bool
	BlockUser string
}
