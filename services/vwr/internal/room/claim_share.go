package room

import "time"

// Window and bounds of the claim share.
const (
	ShareWindow = 20 * time.Second
	MinShare    = 0.2
	MaxShare    = 2.0
	// sharePrior is added to the served and to the claimed positions, so that small numbers barely
	// change the share.
	sharePrior = 10
)

// maxShareGap is the longest time between two reads of the claims in the same window.
const maxShareGap = 5 * time.Second

// ClaimShare measures the share of the positions served in the last 20 s that were claimed. The
// rate is divided by it, so that visitors who left do not use up the rate. Claims of positions
// served earlier count too, so latecomers slow the counter down. While claims cannot be read, the
// share stays unchanged. It is not safe for concurrent use.
type ClaimShare struct {
	round Round
	value float64 // 0 until a whole window was observed
	// samples are sorted by time. The first one is the newest that is at least ShareWindow old, if
	// any.
	samples []shareSample
}

// shareSample is one read of the counters.
type shareSample struct {
	at               time.Time
	serving, claimed int64
}

func (s *ClaimShare) ReadDue(c Counters, now time.Time) bool {
	return s.round != c.Round || len(s.samples) == 0 || now.Sub(s.samples[len(s.samples)-1].at) >= claimsInterval
}

// Observe records a read of the counters and of the claims that completed at now. After a gap of
// more than maxShareGap a new window begins, since claims made in the gap may arrive late or be
// lost.
func (s *ClaimShare) Observe(c Counters, claimed int64, now time.Time) {
	if s.round != c.Round {
		*s = ClaimShare{round: c.Round}
	}
	if n := len(s.samples); n > 0 && now.Sub(s.samples[n-1].at) > maxShareGap {
		s.samples = s.samples[:0]
	}
	s.samples = append(s.samples, shareSample{at: now, serving: c.Serving, claimed: claimed})
	drop := 0
	for drop+1 < len(s.samples) && now.Sub(s.samples[drop+1].at) >= ShareWindow {
		drop++
	}
	s.samples = append(s.samples[:0], s.samples[drop:]...)
	s.measure()
}

func (s *ClaimShare) measure() {
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	if last.at.Sub(first.at) < ShareWindow {
		return
	}
	served, claimed := last.serving-first.serving, last.claimed-first.claimed
	s.value = max(MinShare, min(MaxShare, float64(claimed+sharePrior)/float64(served+sharePrior)))
}

// Share returns the share, between MinShare and MaxShare. It is 1 until a whole window was
// observed: claims follow the counter by one poll interval, so a short window would count visitors
// who are about to poll as gone.
func (s *ClaimShare) Share() float64 {
	if s.value == 0 {
		return 1
	}
	return s.value
}
