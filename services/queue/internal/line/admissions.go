package line

import "math"

const (
	// countedFor is how long an admission counts for the rate of the last minute, and sampleInterval
	// the least time between two samples, in milliseconds.
	countedFor     = 60_000
	sampleInterval = 1000
)

// admissionCounter measures a line's admissions of the last minute, whether anybody waits or not.
// rateEstimator instead measures how fast a queue moves.
type admissionCounter struct {
	// samples are the line's total of admissions at some times, oldest first. The first is a minute
	// old or more, as soon as the line was observed for that long.
	samples []admissionSample
	latest  admissionSample
}

type admissionSample struct{ at, admitted int64 }

// observe adds a state. A total below the last one is that of a lost line, and an earlier time that
// of another clock: both restart the measurement.
func (c *admissionCounter) observe(s State) {
	if s.Now < c.latest.at || s.Admitted < c.latest.admitted {
		c.samples = c.samples[:0]
	}
	c.latest = admissionSample{at: s.Now, admitted: s.Admitted}
	if n := len(c.samples); n == 0 || s.Now-c.samples[n-1].at >= sampleInterval {
		c.samples = append(c.samples, c.latest)
	}
	old := 0
	for old+1 < len(c.samples) && c.samples[old+1].at <= s.Now-countedFor {
		old++
	}
	c.samples = append(c.samples[:0], c.samples[old:]...)
}

// perMinute returns the admissions per minute since the first sample. Until the line was observed
// for five seconds they are not extrapolated from less.
func (c *admissionCounter) perMinute() float64 {
	if len(c.samples) == 0 {
		return 0
	}
	first := c.samples[0]
	elapsed := max(c.latest.at-first.at, minObservation)
	return math.Round(float64(c.latest.admitted-first.admitted)*600_000/float64(elapsed)) / 10
}
