package room

import "time"

// Bounds and window of the share of served positions that are claimed.
const (
	ShareWindow = 20 * time.Second
	MinShare    = 0.2
	MaxShare    = 2.0
	// sharePrior positions that count as served and claimed steady the share of small numbers.
	sharePrior = 10
)

// Share measures which share of the positions served in the last 20 s was claimed. The rate is divided by it, so that people who left
// do not use it up, and a crowd of latecomers (claims of positions served long ago count too) slows the counter. Not safe for
// concurrent use.
type Share struct {
	round   Round
	samples []shareSample // oldest first; the first is the newest that is at least ShareWindow old, once there is one
}

type shareSample struct {
	at               time.Time
	serving, claimed int64
}

// Observe notes a read of the counters at now.
func (s *Share) Observe(c Counters, now time.Time) {
	if s.round != c.Round {
		*s = Share{round: c.Round}
	}
	s.samples = append(s.samples, shareSample{at: now, serving: c.Serving, claimed: c.Claimed})
	drop := 0
	for drop+1 < len(s.samples) && now.Sub(s.samples[drop+1].at) >= ShareWindow {
		drop++
	}
	s.samples = append(s.samples[:0], s.samples[drop:]...)
}

// Value is the share, between MinShare and MaxShare. It is 1 until a whole window was seen: claims follow the counter by a poll, so a
// young window would take those who are still coming for people who left.
func (s *Share) Value() float64 {
	if len(s.samples) == 0 {
		return 1
	}
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	if last.at.Sub(first.at) < ShareWindow {
		return 1
	}
	served, claimed := last.serving-first.serving, last.claimed-first.claimed
	return max(MinShare, min(MaxShare, float64(claimed+sharePrior)/float64(served+sharePrior)))
}
