package expiry

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// inconsistentAfter is how often a reservation may be found locked before it counts as
	// inconsistent: some of its seats may not exist, so that not all of them can be locked. Nine
	// tries take two minutes.
	inconsistentAfter = 9
	// maxPause is the longest time until the next try.
	maxPause = time.Minute
)

// stuck remembers the due reservations that could not be expired, so that a sweep finds others.
// Each replica finds out for itself.
type stuck struct {
	mu   sync.Mutex
	rows map[uuid.UUID]stuckRow
}

type stuckRow struct {
	tries int
	next  time.Time // of the next try
}

// skipped are those whose next try is still to come; never nil, which SQL would take for NULL.
func (s *stuck) skipped(now time.Time) []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(s.rows))
	for id, r := range s.rows {
		if r.next.After(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// retain forgets those that were to be tried but are not due any more. When there may be more due
// ones than were found, nothing is known of the others.
func (s *stuck) retain(due []uuid.UUID, more bool, now time.Time) {
	if more {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.rows, func(id uuid.UUID, r stuckRow) bool { return !r.next.After(now) && !slices.Contains(due, id) })
}

// addLocked notes that another transaction had the reservation locked. That is usually short: it is
// tried again at once, then after 1, 2, 4 … s.
func (s *stuck) addLocked(id uuid.UUID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[id]
	if r.tries++; r.tries > 2 {
		r.next = now.Add(min(time.Second<<min(r.tries-3, 10), maxPause))
	}
	s.putLocked(id, r)
}

// addInconsistent notes that the reservation contradicts other rows.
func (s *stuck) addInconsistent(id uuid.UUID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(id, stuckRow{tries: inconsistentAfter, next: now.Add(maxPause)})
}

// putLocked is called with the mutex held.
func (s *stuck) putLocked(id uuid.UUID, r stuckRow) {
	if s.rows == nil {
		s.rows = make(map[uuid.UUID]stuckRow)
	}
	s.rows[id] = r
}

func (s *stuck) forget(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, id)
}

func (s *stuck) inconsistent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.rows {
		if r.tries >= inconsistentAfter {
			n++
		}
	}
	return n
}
