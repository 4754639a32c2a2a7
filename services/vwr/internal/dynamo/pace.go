package dynamo

import (
	"context"
	"maps"
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// maxPacerEntries is how many events a writePacer keeps before it drops those that need no wait.
const maxPacerEntries = 1000

// writePacer ensures a minimum interval between writes of one event.
type writePacer struct {
	gap  time.Duration
	mu   sync.Mutex
	last map[string]time.Time // time of the last write, by event
}

// wait blocks until the event may be written again, or until ctx ends.
func (p *writePacer) wait(ctx context.Context, eventID string) error {
	p.mu.Lock()
	now := time.Now()
	due := now.Add(max(0, p.last[eventID].Add(p.gap).Sub(now)))
	if len(p.last) >= maxPacerEntries {
		maps.DeleteFunc(p.last, func(_ string, at time.Time) bool { return now.Sub(at) > p.gap })
	}
	p.last[eventID] = due
	p.mu.Unlock()
	select {
	case <-time.After(time.Until(due)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	// maxBacklogWait is the longest estimated wait with which an assign is accepted. Beyond it, the
	// visitor gets a time to retry: the gateway would stop waiting after 3 s.
	maxBacklogWait = 2 * time.Second
	// minSampleSize is the smallest group by which the time of one assign is measured. In smaller
	// groups the fixed cost dominates.
	minSampleSize = 50
	maxBacklogs   = 1000 // at this number, backlogs without waiting assigns are removed
)

// assignBacklogs has a backlog per event, so that only visitors of a slow event are refused.
type assignBacklogs struct {
	mu      sync.Mutex
	byEvent map[string]*assignBacklog
}

func (q *assignBacklogs) forEvent(eventID string) *assignBacklog {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.byEvent[eventID]; b != nil {
		return b
	}
	if len(q.byEvent) >= maxBacklogs {
		maps.DeleteFunc(q.byEvent, func(_ string, b *assignBacklog) bool { return b.idle() })
	}
	if q.byEvent == nil {
		q.byEvent = make(map[string]*assignBacklog)
	}
	b := &assignBacklog{}
	q.byEvent[eventID] = b
	return b
}

// assignBacklog estimates how long a visitor's request for a position (an assign) would wait: the
// number of waiting assigns times the measured time of one.
type assignBacklog struct {
	mu        sync.Mutex
	waiting   int
	perAssign time.Duration
}

// enter adds up to n waiting assigns. It returns how many it has added, with which the caller must
// later call leave. For the rest, err is errs.ErrOverloaded.
func (b *assignBacklog) enter(n int) (entered int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ; entered < n; entered++ {
		if wait := time.Duration(b.waiting) * b.perAssign; wait > maxBacklogWait {
			return entered, errs.ErrOverloaded.WithRetry(wait.Round(time.Second))
		}
		b.waiting++
	}
	return entered, nil
}

func (b *assignBacklog) leave(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting -= n
}

func (b *assignBacklog) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting == 0
}

// observeGroup updates the measured time of one assign after a group of n assigns. A group below
// minSampleSize can only lower the measured time.
func (b *assignBacklog) observeGroup(n int, elapsed time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	perAssign := elapsed / time.Duration(n)
	if n >= minSampleSize {
		b.perAssign = (b.perAssign + perAssign) / 2
	} else {
		b.perAssign = min(b.perAssign, perAssign)
	}
}
