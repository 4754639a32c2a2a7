package audit

import "sync"

// Sample is the state of one sale at one instant.
type Sample struct {
	// Seconds since the beginning of the run.
	Seconds float64 `json:"seconds"`
	// Arrived is the number of arrived visitors, counted by their simulator.
	Arrived int64 `json:"arrived"`
	// Serving is tier 1's counter.
	Serving int64 `json:"serving"`
	// Waiting, Parked and Active are the sizes of tier 2's sets. Active counts unexpired slots,
	// including those of an ended epoch.
	Waiting int64 `json:"waiting"`
	Parked  int64 `json:"parked"`
	Active  int64 `json:"active"`
	// Held and Sold are numbers of seats.
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

// Samples returns a copy of all samples.
func (s *Series) Samples() []Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Sample(nil), s.samples...)
}

// Over counts the samples with more active visitors than the threshold allows.
func (s *Series) Over(threshold int64) int {
	n := 0
	for _, sample := range s.Samples() {
		if sample.Active > threshold {
			n++
		}
	}
	return n
}
