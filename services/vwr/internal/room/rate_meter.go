package room

import (
	"math"
	"time"
)

const (
	// meterDecay is the time constant of the measured rate in seconds: a sample 15 s old has 1/e of
	// the weight of a new one.
	meterDecay = 15.0
	// meterMinSeconds is for how many seconds visitors must have waited before a rate is reported.
	meterMinSeconds = 3.0
	// stalledAfter, plus two intervals of the inlet, is how long the counter must not have moved to
	// count as stalled, if visitors wait.
	stalledAfter = 30 * time.Second
)

// RateMeter measures the speed of the serving counter: an exponentially weighted mean over the time
// in which somebody waits under the present settings. It is not safe for concurrent use.
type RateMeter struct {
	observed           bool
	last               Counters
	at, moved          time.Time // the last observation; the last moved counter or empty queue
	positions, seconds float64   // weighted sums, whose quotient is the rate
}

func (m *RateMeter) Observe(c Counters, now time.Time) {
	if !m.observed || m.last.Round != c.Round || m.last.Settings != c.Settings {
		*m = RateMeter{observed: true, last: c, at: now, moved: now}
		return
	}
	dt := now.Sub(m.at).Seconds()
	if dt <= 0 {
		return
	}
	if m.last.Waiting() > 0 { // with an empty queue the speed depends on arrivals, not on the inlet
		keep := math.Exp(-dt / meterDecay)
		m.positions = m.positions*keep + float64(max(0, c.Serving-m.last.Serving))
		m.seconds = m.seconds*keep + dt
	}
	if m.last.Waiting() == 0 || c.Serving > m.last.Serving {
		m.moved = now
	}
	m.last, m.at = c, now
}

// Stalled reports whether visitors wait although the counter has not moved for long.
func (m *RateMeter) Stalled() bool {
	return m.last.Waiting() > 0 && m.at.Sub(m.moved) > stalledAfter+2*m.last.Settings.Interval
}

// Rate returns the measured positions per second; 0 while there is no measurement.
func (m *RateMeter) Rate() float64 {
	if m.seconds < meterMinSeconds {
		return 0
	}
	return m.positions / m.seconds
}
