package expiry

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// inconsistentAfter is the number of failed tries to lock a reservation with all of its seats
	// after which it counts as inconsistent: some of its seats may not exist. Until then another
	// transaction may have locked them. Nine tries take two minutes.
	inconsistentAfter = 9
	// maxPause is the longest pause before the next try.
	maxPause = time.Minute
)

// expiryFailures has the reservations that this process could not expire. The next attempt leaves
// them out, so that it finds others.
type expiryFailures struct {
	mu   sync.Mutex
	rows map[uuid.UUID]expiryFailure
}

type expiryFailure struct {
	tries   int
	nextTry time.Time
}

// paused returns the reservations whose next try is later than now. It never returns nil, which SQL
// would take for NULL.
func (f *expiryFailures) paused(now time.Time) []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(f.rows))
	for id, r := range f.rows {
		if r.nextTry.After(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// retain forgets the reservations that are no longer paused and are not in due.
func (f *expiryFailures) retain(due []uuid.UUID, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.rows, func(id uuid.UUID, r expiryFailure) bool { return !r.nextTry.After(now) && !slices.Contains(due, id) })
}

// addLocked records that another transaction had locked the reservation. Since such a lock is
// usually short, the first two tries are repeated at once, and later ones after 1, 2, 4 … s.
func (f *expiryFailures) addLocked(id uuid.UUID, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rows[id]
	if r.tries++; r.tries > 2 {
		r.nextTry = now.Add(min(time.Second<<min(r.tries-3, 10), maxPause))
	}
	f.rows[id] = r
}

func (f *expiryFailures) addInconsistent(id uuid.UUID, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[id] = expiryFailure{tries: inconsistentAfter, nextTry: now.Add(maxPause)}
}

func (f *expiryFailures) remove(id uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rows, id)
}

func (f *expiryFailures) inconsistent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.rows {
		if r.tries >= inconsistentAfter {
			n++
		}
	}
	return n
}
