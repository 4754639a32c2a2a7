package audit

import "sync"

// Sample is the state of one sale at one instant.
type Sample struct {
	// Seconds since the beginning of the run.
	Seconds float64 `json:"seconds"`
	// Arrived visitors, as their simulator counts them.
	Arrived int64 `json:"arrived"`
	// Serving is tier 1's counter.
	Serving int64 `json:"serving"`
	// Waiting, Parked and Active are tier 2's sets; Active counts slots that have not expired, those of an ended epoch too.
	Waiting int64 `json:"waiting"`
	Parked  int64 `json:"parked"`
	Active  int64 `json:"active"`
	// Held and Sold are seats.
	Held int64 `json:"held"`
	Sold int64 `json:"sold"`
}

// Series is the samples of a run; safe for concurrent use.
type Series struct {
	mu      sync.Mutex
	samples []Sample
}

// Add appends a sample.
func (s *Series) Add(sample Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, sample)
}

// Samples copies what there is.
func (s *Series) Samples() []Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Sample(nil), s.samples...)
}

// Over counts the samples with more active than the threshold allows.
func (s *Series) Over(threshold int64) int {
	n := 0
	for _, sample := range s.Samples() {
		if sample.Active > threshold {
			n++
		}
	}
	return n
}
