package room

import (
	"math"
	"time"
)

// Pace decides how far a replica may advance one event's serving counter. It measures, on the replica's own monotonic clock, how long
// the counter has stood where it stands; since a value is always seen after it was written, the measured time is never longer than the
// true one, and so no number of replicas, skewed clocks or crashes advances faster than the rate. The zero value has seen nothing and
// allows nothing. Not safe for concurrent use.
type Pace struct {
	seen    bool
	round   Round
	serving int64
	since   time.Time
}

// Observe notes a consistent read of the counters that was complete at now. A counter that another replica has moved starts the
// measurement anew: that replica goes on winning, and this one takes over when it falls silent.
func (p *Pace) Observe(c Counters, now time.Time) {
	if p.seen && p.round == c.Round && p.serving == c.Serving {
		return
	}
	*p = Pace{seen: true, round: c.Round, serving: c.Serving, since: now}
}

// NotBefore lets the measurement begin no sooner than at t: what came before is not worth any
// position.
func (p *Pace) NotBefore(t time.Time) {
	if p.since.Before(t) {
		p.since = t
	}
}

// Allowance is the number of positions by which the counter may advance at now: what the rate (positions per second) gives for the time
// the counter has stood still, at most one batch, and never past the last position given out.
func (p *Pace) Allowance(c Counters, rate float64, now time.Time) int64 {
	if !p.seen || p.round != c.Round || p.serving != c.Serving {
		return 0
	}
	return min(p.earned(rate, now), c.Settings.Batch, c.Waiting())
}

func (p *Pace) earned(rate float64, now time.Time) int64 {
	return int64(min(math.Floor(rate*now.Sub(p.since).Seconds()), math.MaxInt32))
}

// Advanced notes that this replica moved the counter by n in a write it began at start. The fraction of a position that the elapsed
// time was worth beyond n is kept, else a rate of 0.9 per step would become 0; what the batch or an empty line cut off is not, else an
// idle spell would end in a burst.
func (p *Pace) Advanced(n int64, rate float64, start time.Time) {
	if p.earned(rate, start) == n && rate > 0 {
		p.since = p.since.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	} else {
		p.since = start
	}
	p.serving += n
}
