package room

import "time"

// FlightWindow is how long a served visitor counts as on the way to tier 2; who has not arrived by then has left.
const FlightWindow = 60 * time.Second

// Flight applies the inlet MaxInFlight: it knows how many were served and how many arrived at tier 2 in the last 60 s. Not safe for
// concurrent use.
type Flight struct {
	round   Round
	samples []flightSample // oldest first; the first is the newest that is at least FlightWindow old, once there is one
}

type flightSample struct {
	at               time.Time
	serving, arrived int64
}

// Observe notes, at now, a read of the counters and the load that was asked for after it.
func (f *Flight) Observe(c Counters, l Load, now time.Time) {
	restarted := len(f.samples) > 0 && l.Arrived < f.samples[len(f.samples)-1].arrived // tier 2 lost its count
	if f.round != c.Round || restarted {
		*f = Flight{round: c.Round}
	}
	f.samples = append(f.samples, flightSample{at: now, serving: c.Serving, arrived: l.Arrived})
	drop := 0
	for drop+1 < len(f.samples) && now.Sub(f.samples[drop+1].at) >= FlightWindow {
		drop++
	}
	f.samples = append(f.samples[:0], f.samples[drop:]...)
}

// Allowance is the number of positions that may be served so that waiting, active and those on the way stay within the maximum; at most
// one batch, never past the last position given out.
func (f *Flight) Allowance(c Counters, l Load) int64 {
	free := c.Settings.MaxInFlight - l.Waiting - l.Active - f.onTheWay(c, l)
	return max(0, min(free, c.Settings.Batch, c.Waiting()))
}

// onTheWay is how many of those served in the last 60 s have not arrived. A replica that has watched for less than that, and not from
// the start of the round, counts everyone ever served: too many rather than too few, for at most a minute.
func (f *Flight) onTheWay(c Counters, l Load) int64 {
	if len(f.samples) == 0 {
		return max(0, c.Serving-l.Arrived)
	}
	first, last := f.samples[0], f.samples[len(f.samples)-1]
	if first.serving > 0 && last.at.Sub(first.at) < FlightWindow {
		return max(0, c.Serving-l.Arrived)
	}
	return max(0, (c.Serving-first.serving)-(l.Arrived-first.arrived))
}
