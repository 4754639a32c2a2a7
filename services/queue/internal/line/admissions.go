package line

import "math"

const (
	// countedFor is how long an admission counts for the rate. sampleInterval is the shortest time
	// between two samples. Both are milliseconds.
	countedFor     = 60_000
	sampleInterval = 1000
)

// admissionCounter measures a line's admissions during the last minute, even if nobody waits.
// (rateEstimator measures how fast the line moves while somebody waits.)
type admissionCounter struct {
	// samples hold the line's total of admissions at different times, the oldest first. Once the line
	// was observed for a minute, the first sample is at least a minute old.
	samples []admissionSample
	latest  admissionSample
}

type admissionSample struct{ at, admitted int64 }

// observe takes a sample from a state of the line. The measurement starts again if the total has
// decreased (the line was lost), or the time (another Redis server's clock).
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
