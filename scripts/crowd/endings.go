package crowd

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Endings counts how visits end. Its zero value is ready for use.
type Endings struct {
	// Gone is the number of visits that have ended.
	Gone atomic.Int64

	mu       sync.Mutex
	outcomes map[string]int
}

// End notes how a visit ended.
func (e *Endings) End(outcome string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outcomes == nil {
		e.outcomes = map[string]int{}
	}
	e.outcomes[outcome]++
	e.Gone.Add(1)
}

// Outcomes returns how many visits ended in which way.
func (e *Endings) Outcomes() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.outcomes)
}
