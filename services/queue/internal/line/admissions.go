package line

import "math"

const (
	// countedFor is how long an admission counts in the rate of the last minute, sampleInterval the
	// least time between two samples; both in milliseconds.
	countedFor     = 60_000
	sampleInterval = 1000
)

// admissionCounter measures a line's admissions during the last minute, also while nobody waits. (How
// fast a queue moves while somebody waits is measured by rateEstimator.)
type admissionCounter struct {
	// samples hold the line's total number of admissions at different times, oldest first. The first
	// sample is at least a minute old once the line was observed for a minute.
	samples []admissionSample
	latest  admissionSample
}

type admissionSample struct{ at, admitted int64 }

// observe takes a sample from a state of the line. A total below the last one (the line was lost) or an
// earlier time (of another server's clock) restarts the measurement.
func (c *admissionCounter) observe(s LineState) {
	if s.Now < c.latest.at || s.Admitted < c.latest.admitted {
		c.samples = c.samples[:0]
	}
	c.latest = admissionSample{at: s.Now, admitted: s.Admitted}
	if n := len(c.samples); n == 0 || s.Now-c.samples[n-1].at >= sampleInterval {
		c.samples = append(c.samples, c.latest)
	}
	expired := 0
	for expired+1 < len(c.samples) && c.samples[expired+1].at <= s.Now-countedFor {
		expired++
	}
	c.samples = append(c.samples[:0], c.samples[expired:]...)
}

// perMinute returns the admissions per minute since the first sample. A time below five seconds counts
// as five seconds, so that few admissions right after the start do not give a high rate.
func (c *admissionCounter) perMinute() float64 {
	if len(c.samples) == 0 {
		return 0
	}
	first := c.samples[0]
	elapsed := max(c.latest.at-first.at, minObservation)
	return math.Round(float64(c.latest.admitted-first.admitted)*600_000/float64(elapsed)) / 10
}
