package room

import (
	"time"

	"urr.guru/pkg/waits"
)

// The window in which the claim share is measured, and the limits of the share.
const (
	// ShareWindow is longer than waits.LongestPoll.
	ShareWindow = 80 * time.Second
	MinShare    = 0.2
	MaxShare    = 2.0
	// sharePrior is added both to the served and to the claimed positions, so that small numbers
	// hardly change the share.
	sharePrior = 10
)

const (
	// maxShareGap is the longest time between two reads of the claims in the same window.
	maxShareGap = 5 * time.Second
	// maxRateStep is the factor by which the rate may rise without serving visitors far too early.
	maxRateStep = 2
)

// ClaimShare measures which share of the positions served in the last 80 s was claimed. The rate is
// divided by the share, so that visitors who left do not use up the rate. Claims of positions
// served earlier count too, so latecomers slow the counter down. While claims cannot be read, the
// share is unchanged. It is not safe for concurrent use.
//
// Visitors poll more often the nearer the counter is, so they claim within seconds. After an
// operator's advance or a much higher rate, the counter reaches some visitors far earlier than
// estimated. They poll up to waits.LongestPoll later, and seem to have left until then. So the
// share is unchanged for that time, and then a new window begins.
type ClaimShare struct {
	round Round
	rate  float64 // the configured rate at the last read
	value float64 // 0 until a whole window has been observed
	// lateUntil is the time by which all visitors have polled whom the counter has reached too early.
	lateUntil time.Time
	// samples are sorted by time. The first one is the newest that is at least ShareWindow old, if
	// there is one.
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

// Observe records a read of the counters and of the claims that ended at now. After a gap of more
// than maxShareGap a new window begins, since claims made in the gap may arrive late or be lost.
// While visitors may poll late, each read begins a new window.
func (s *ClaimShare) Observe(c Counters, claimed int64, now time.Time) {
	if s.round != c.Round {
		*s = ClaimShare{round: c.Round}
	}
	if n := len(s.samples); n > 0 {
		last := s.samples[n-1]
		since := now.Sub(last.at)
		if c.Serving-last.serving > c.maxAdvance(since) || c.Settings.Rate() > maxRateStep*s.rate {
			s.lateUntil = now.Add(waits.LongestPoll)
		}
		if since > maxShareGap || now.Before(s.lateUntil) {
			s.samples = s.samples[:0]
		}
	}
	s.rate = c.Settings.Rate()
	s.samples = append(s.samples, shareSample{at: now, serving: c.Serving, claimed: claimed})
	drop := 0
	for drop+1 < len(s.samples) && now.Sub(s.samples[drop+1].at) >= ShareWindow {
		drop++
	}
	s.samples = append(s.samples[:0], s.samples[drop:]...)
	s.measure()
}

// maxAdvance returns the most positions by which replicas advance the counter within a time. If an
// operator's advance is shorter, the visitors served are so near that they poll every few seconds.
func (c Counters) maxAdvance(d time.Duration) int64 {
	if c.Settings.Inlet == MaxInFlight {
		return c.Settings.Batch * (2 + int64(d/ReadInterval))
	}
	return c.Settings.Batch + int64(c.Settings.Rate()/MinShare*d.Seconds())
}

func (s *ClaimShare) measure() {
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	if last.at.Sub(first.at) < ShareWindow {
		return
	}
	served, claimed := last.serving-first.serving, last.claimed-first.claimed
	s.value = max(MinShare, min(MaxShare, float64(claimed+sharePrior)/float64(served+sharePrior)))
}

// Share returns the share, between MinShare and MaxShare. It is 1 until a whole window has been
// observed: visitors claim up to one poll interval after they are served, so a shorter window would
// count visitors who are about to poll as gone.
func (s *ClaimShare) Share() float64 {
	if s.value == 0 {
		return 1
	}
	return s.value
}
