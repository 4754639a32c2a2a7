package room

import (
	"math"
	"time"
)

const (
	// meterDecay is the time constant of the measured rate: what happened 15 s ago weighs 1/e of what happens now.
	meterDecay = 15.0
	// meterWarm is how many seconds of a moving line must have been seen before there is a measured rate.
	meterWarm = 3.0
)

// Meter measures how fast the serving counter really moves, while somebody waits: an exponentially weighted mean over the time in which
// the line was not empty. Not safe for concurrent use.
type Meter struct {
	seen         bool
	last         Counters
	at           time.Time
	moved, spent float64 // decayed positions and seconds
}

// Observe notes a read of the counters at now.
func (m *Meter) Observe(c Counters, now time.Time) {
	if !m.seen || m.last.Round != c.Round {
		*m = Meter{seen: true, last: c, at: now}
		return
	}
	dt := now.Sub(m.at).Seconds()
	if dt <= 0 {
		return
	}
	if m.last.Waiting() > 0 { // an empty line moves as its visitors come, which says nothing about the inlet
		keep := math.Exp(-dt / meterDecay)
		m.moved = m.moved*keep + float64(max(0, c.Serving-m.last.Serving))
		m.spent = m.spent*keep + dt
	}
	m.last, m.at = c, now
}

// Rate is the measured number of positions per second; 0 until there is a measurement.
func (m *Meter) Rate() float64 {
	if m.spent < meterWarm {
		return 0
	}
	return m.moved / m.spent
}
