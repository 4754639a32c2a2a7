package request

import (
	"time"

	"urr.guru/pkg/promotion"
)

// Backlog is what the last pass of a sweeper found: requests older than SendAfter that had not ended,
// in the partitions that it swept. Those of all replicas add up.
type Backlog struct {
	// Unsent are not known to be in the queue, Queued are.
	Unsent, Queued int
	// Oldest is when the oldest of them was accepted, or begun anew; zero without any.
	Oldest time.Time
	// SweptAt is the end of the last pass without an error.
	SweptAt time.Time
}

func (b *Backlog) add(m *promotion.Marker) {
	if m.QueuedAt == 0 {
		b.Unsent++
	} else {
		b.Queued++
	}
	since := m.RequestedAt
	if m.Gen > 0 { // begun anew, maybe long after the request
		since = m.MarkedAt
	}
	b.older(time.UnixMilli(since).UTC())
}

func (b *Backlog) older(t time.Time) {
	if b.Oldest.IsZero() || t.Before(b.Oldest) {
		b.Oldest = t
	}
}

// Backlog is what the last pass found.
func (s *Sweeper) Backlog() Backlog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.backlog
}

// note adds up what the slices of a pass have found.
func (s *Sweeper) note(found []Backlog, complete bool) {
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
			sum.older(b.Oldest)
		}
	}
	s.backlog = sum
}
