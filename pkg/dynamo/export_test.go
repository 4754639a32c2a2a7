package dynamo

import "time"

// EnsureTablePausing is EnsureTable with another maximum pause between attempts to enable recovery.
var EnsureTablePausing = ensureTable

// Skew is skewEstimate.
type Skew = skewEstimate

// Observe is addResponse.
func (s *skewEstimate) Observe(sent, received, date time.Time) time.Duration {
	return s.addResponse(sent, received, date)
}

// ClockObserved reports whether a response had a Date.
func ClockObserved() bool {
	processSkew.mu.Lock()
	defer processSkew.mu.Unlock()
	return !processSkew.since.IsZero()
}
