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

// shareGap is the longest time between two reads of the claims that belong to the same window.
const shareGap = 5 * time.Second

// Share measures which share of the positions served in the last 20 s was claimed. The rate is
// divided by it, so that people who left do not use it up, and a crowd of latecomers (claims of
// positions served long ago count too) slows the counter. Without reads of the claims the last
// share stays. Not safe for concurrent use.
type Share struct {
	round   Round
	value   float64       // 0 until a whole window was seen
	samples []shareSample // oldest first; the first is the newest that is at least ShareWindow old, once there is one
}

// shareSample is a read of the counters. former are the claims on the event's item, to which
// replicas of the previous release write alone; claimed those of the event's claims item.
type shareSample struct {
	at                       time.Time
	serving, former, claimed int64
}

// Due reports whether the claims are to be read at now.
func (s *Share) Due(c Counters, now time.Time) bool {
	return s.round != c.Round || len(s.samples) == 0 || now.Sub(s.samples[len(s.samples)-1].at) >= claimsEvery
}

// Observe notes a read of the counters and of the claims, complete at now. After a gap of more than
// shareGap a new window begins, since claims made in the gap may come late or never.
func (s *Share) Observe(c Counters, claimed int64, now time.Time) {
	if s.round != c.Round {
		*s = Share{round: c.Round}
	}
	if n := len(s.samples); n > 0 && now.Sub(s.samples[n-1].at) > shareGap {
		s.samples = s.samples[:0]
	}
	s.samples = append(s.samples, shareSample{at: now, serving: c.Serving, former: c.Claimed, claimed: claimed})
	drop := 0
	for drop+1 < len(s.samples) && now.Sub(s.samples[drop+1].at) >= ShareWindow {
		drop++
	}
	s.samples = append(s.samples[:0], s.samples[drop:]...)
	s.measure()
}

// measure takes the greater of both counts of claims: while replicas of the previous release run,
// the former one is complete; where the event's item is too busy to be written, the other.
func (s *Share) measure() {
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	if last.at.Sub(first.at) < ShareWindow {
		return
	}
	served, claimed := last.serving-first.serving, max(last.former-first.former, last.claimed-first.claimed)
	s.value = max(MinShare, min(MaxShare, float64(claimed+sharePrior)/float64(served+sharePrior)))
}

// Value is the share, between MinShare and MaxShare. It is 1 until a whole window was seen: claims follow the counter by a poll, so a
// young window would take those who are still coming for people who left.
func (s *Share) Value() float64 {
	if s.value == 0 {
		return 1
	}
	return s.value
}
