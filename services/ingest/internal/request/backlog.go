package request

import (
	"time"

	"urr.guru/pkg/promotion"
)

// Backlog counts the requests older than SendAfter that a sweeper's last pass found without a
// result, in the partitions that it swept. The sum over all replicas is the whole backlog.
type Backlog struct {
	// Queued counts the requests that are known to be in the SQS queue, Unsent all other requests.
	Unsent, Queued int
	// Oldest is when the oldest of these requests was accepted or redriven; zero if there is none.
	Oldest time.Time
	// SweptAt is the end of the last pass without an error.
	SweptAt time.Time

	mustDrain bool // the sweeper must send some of these requests
}

func (b *Backlog) addMarker(m *promotion.Marker) {
	if m.QueuedAt == 0 {
		b.Unsent++
	} else {
		b.Queued++
	}
	since := m.RequestedAt
	if m.Gen > 0 { // a redriven request, which may have been made long ago
		since = m.MarkedAt
	}
	b.lowerOldest(time.UnixMilli(since).UTC())
}

func (b *Backlog) lowerOldest(t time.Time) {
	if b.Oldest.IsZero() || t.Before(b.Oldest) {
		b.Oldest = t
	}
}

// Backlog returns the backlog that the last pass has found.
func (s *Sweeper) Backlog() Backlog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backlog
}

// setBacklog stores the sum of the backlogs that one pass has found. complete: it had no error.
func (s *Sweeper) setBacklog(found []Backlog, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := Backlog{SweptAt: s.backlog.SweptAt}
	if complete {
		sum.SweptAt = s.opts.Now()
	}
	for _, b := range found {
		sum.Unsent += b.Unsent
		sum.Queued += b.Queued
		if !b.Oldest.IsZero() {
			sum.lowerOldest(b.Oldest)
		}
	}
	s.backlog = sum
}
