package room

import "time"

// ArrivalWindow is how long a served visitor counts as on the way to tier 2. A visitor who has not
// arrived by then counts as gone. It is longer than waits.LongestPoll, within which all visitors
// learn that they are served.
const ArrivalWindow = 90 * time.Second

// InFlightLimiter implements the inlet MaxInFlight. It measures how many visitors were served, and
// how many arrived at tier 2, in the last 90 s. It is not safe for concurrent use.
type InFlightLimiter struct {
	round Round
	// samples are sorted by time. The first one is the newest that is at least ArrivalWindow old, if
	// there is one.
	samples []inFlightSample
}

type inFlightSample struct {
	at               time.Time
	serving, arrived int64
}

func (f *InFlightLimiter) Observe(c Counters, l TierTwoLoad, now time.Time) {
	// A smaller count means that tier 2 has lost its counter.
	restarted := len(f.samples) > 0 && l.Arrived < f.samples[len(f.samples)-1].arrived
	if f.round != c.Round || restarted {
		*f = InFlightLimiter{round: c.Round}
	}
	f.samples = append(f.samples, inFlightSample{at: now, serving: c.Serving, arrived: l.Arrived})
	drop := 0
	for drop+1 < len(f.samples) && now.Sub(f.samples[drop+1].at) >= ArrivalWindow {
		drop++
	}
	f.samples = append(f.samples[:0], f.samples[drop:]...)
}

// Allowance returns how many positions may be served so that the visitors waiting, active and in
// transit do not exceed the maximum. It is at most one batch, and ends at the last issued position.
func (f *InFlightLimiter) Allowance(c Counters, l TierTwoLoad) int64 {
	return max(0, min(f.Headroom(c, l), c.Settings.Batch, c.Waiting()))
}

// Headroom returns how many more visitors fit into tier 2; 0 or less if it is full.
func (f *InFlightLimiter) Headroom(c Counters, l TierTwoLoad) int64 {
	return c.Settings.MaxInFlight - l.Waiting - l.Active - f.inTransit(c, l)
}

// inTransit returns how many visitors served in the last 90 s have not arrived at tier 2. A replica
// that has observed neither 90 s nor the start of the round counts all visitors ever served. So the
// number is too high, for at most 90 s.
func (f *InFlightLimiter) inTransit(c Counters, l TierTwoLoad) int64 {
	if len(f.samples) == 0 {
		return max(0, c.Serving-l.Arrived)
	}
	first, last := f.samples[0], f.samples[len(f.samples)-1]
	if first.serving > 0 && last.at.Sub(first.at) < ArrivalWindow {
		return max(0, c.Serving-l.Arrived)
	}
	return max(0, (c.Serving-first.serving)-(l.Arrived-first.arrived))
}
