// Package event is what is on sale: events, their sections and seats, and what can be seen of them.
package event

// Seating says how places are sold.
type Seating string

// The two kinds of seating.
const (
	Assigned Seating = "ASSIGNED" // every seat has a row and a number
	General  Seating = "GENERAL"  // a number of admissions per section
)

// State is set by operators.
type State string

// The states of a sale.
const (
	Open      State = "OPEN"
	Paused    State = "PAUSED"
	Cancelled State = "CANCELLED"
)

// Status is what visitors see; it follows from the state, the clock and the sold places.
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

// Event is one event with its settings in force.
type Event struct {
	ID string
	Spec
	State State
	// Version grows with every change.
	Version int64
}

// Count is how many places of a section are not free, and how many of them are sold.
type Count struct{ Taken, Sold int64 }

// Counts are the counts of an event by section; a section with none may be missing.
type Counts map[string]Count

// Free returns the sections' free places, in their order. Counts and sections that were read at
// different moments may not match; free is then at least 0.
func (e *Event) Free(counts Counts) []int64 {
	free := make([]int64, len(e.Sections))
	for i, s := range e.Sections {
		free[i] = max(0, s.Capacity-counts[s.Name].Taken)
	}
	return free
}
