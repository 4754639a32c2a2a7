package dynamo

import "time"

// EnsureTablePausing is EnsureTable with another maximum pause between attempts to enable recovery.
var EnsureTablePausing = ensureTable

// Skew is skew.
type Skew = skew

// Observe is observe.
func (s *skew) Observe(sent, received, date time.Time) time.Duration {
	return s.observe(sent, received, date)
}

// ClockObserved reports whether a response had a Date.
func ClockObserved() bool {
	processSkew.mu.Lock()
	defer processSkew.mu.Unlock()
	return !processSkew.since.IsZero()
}
