// Package room holds the rules of tier 1: visitors of an event get positions in the order in which they arrive, a serving counter
// moves over the positions at a configured rate, and whoever the counter has reached may go on to tier 2.
package room

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Round names one activation of an event's waiting room: the instant at which it started, in µs since the epoch. Positions, tickets and
// tokens belong to a round; those of another are unknown, so that an old position 1 jumps no line. A later round is a greater number.
type Round int64

// Inlet is the rule by which the serving counter advances.
type Inlet string

// The inlets.
const (
	// Periodic serves Batch positions per Interval.
	Periodic Inlet = "PERIODIC"
	// MaxInFlight keeps at most Settings.MaxInFlight people in or on the way to tier 2.
	MaxInFlight Inlet = "MAX_IN_FLIGHT"
)

// Settings are what an operator chooses for an event.
type Settings struct {
	Batch       int64         // positions per Interval, and the most by which one step may advance; from 1
	Interval    time.Duration // from 1 s, whole seconds
	Inlet       Inlet
	MaxInFlight int64 // from 1 with the inlet MaxInFlight, else unused
}

// DefaultSettings are those of a round that was started without any: 500 positions per 10 s.
func DefaultSettings() Settings {
	return Settings{Batch: 500, Interval: 10 * time.Second, Inlet: Periodic}
}

// Rate is the configured number of positions per second.
func (s Settings) Rate() float64 { return float64(s.Batch) / s.Interval.Seconds() }

// Change is a set of settings to be changed; nil members stay as they are.
type Change struct {
	Batch       *int64
	Interval    *time.Duration
	Inlet       *Inlet
	MaxInFlight *int64
}

// With returns the settings after a change. It fails with ErrInvalidSettings, naming the member, when they make no sense together.
func (s Settings) With(c Change) (Settings, error) {
	set(&s.Batch, c.Batch)
	set(&s.Interval, c.Interval)
	set(&s.Inlet, c.Inlet)
	set(&s.MaxInFlight, c.MaxInFlight)
	switch {
	case s.Batch < 1:
		return s, invalid("batch", "must be at least 1")
	case s.Interval < time.Second || s.Interval%time.Second != 0:
		return s, invalid("intervalSeconds", "must be at least 1")
	case s.Inlet != Periodic && s.Inlet != MaxInFlight:
		return s, invalid("inlet", fmt.Sprintf("must be %s or %s", Periodic, MaxInFlight))
	case s.Inlet == MaxInFlight && s.MaxInFlight < 1:
		return s, invalid("maxInFlight", fmt.Sprintf("must be at least 1 with inlet %s", MaxInFlight))
	}
	return s, nil
}

func set[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

// Counters are one event's item in the store.
type Counters struct {
	EventID   string
	Active    bool
	Round     Round
	Issued    int64 // positions given out: the last one's number (nextPosition)
	Serving   int64 // the last position served; at most Issued
	Claimed   int64 // served positions whose visitor has fetched a token
	Settings  Settings
	UpdatedAt time.Time
}

// Waiting is the number of positions that are not served yet.
func (c Counters) Waiting() int64 { return max(0, c.Issued-c.Serving) }

// Record is one visitor's position, durable before the visitor hears of it.
type Record struct {
	EventID   string
	Round     Round
	RequestID uuid.UUID
	Position  int64  // from 1
	Visitor   string // the id inside the visitor's signed cookie
}

// Load is how full tier 2 is.
type Load struct {
	Waiting int64
	Active  int64
	Arrived int64 // in all, since the round began
}
