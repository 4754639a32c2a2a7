package dynamo

import (
	"context"
	"maps"
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// pacer keeps writes of one event apart.
type pacer struct {
	gap  time.Duration
	mu   sync.Mutex
	last map[string]time.Time // when an event was last written
}

// pacerKeep is how many events are remembered before those that need no waiting any more are forgotten.
const pacerKeep = 1000

// wait returns when the event may be written again, or ctx has ended.
func (p *pacer) wait(ctx context.Context, eventID string) error {
	p.mu.Lock()
	now := time.Now()
	due := p.last[eventID].Add(p.gap)
	if due.Before(now) {
		due = now
	}
	if len(p.last) >= pacerKeep {
		for id, at := range p.last {
			if now.Sub(at) > p.gap {
				delete(p.last, id)
			}
		}
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
	// backlogMost is how long an assign may have to wait; above it the visitor is told when to come again, instead of waiting for an
	// answer that comes too late (the gateway waits for 3 s).
	backlogMost = 2 * time.Second
	// backlogSample is the least size of a group that tells what an assign costs; in smaller ones the fixed part of a group counts most.
	backlogSample = 50
)

// backlogsKeep is how many events' estimates are kept before those of events for which nobody waits
// are forgotten.
const backlogsKeep = 1000

// backlogs are those of the events, apart: a slow one refuses only its own visitors.
type backlogs struct {
	mu sync.Mutex
	by map[string]*backlog
}

func (q *backlogs) of(eventID string) *backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.by[eventID]; b != nil {
		return b
	}
	if len(q.by) >= backlogsKeep {
		maps.DeleteFunc(q.by, func(_ string, b *backlog) bool { return b.idle() })
	}
	if q.by == nil {
		q.by = make(map[string]*backlog)
	}
	b := &backlog{}
	q.by[eventID] = b
	return b
}

// backlog estimates how long an assign would wait, from those before it and what one has cost lately.
type backlog struct {
	mu      sync.Mutex
	waiting int
	each    time.Duration
}

// enter counts one more, or refuses it with errs.ErrOverloaded. Who was let in must leave.
func (b *backlog) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := time.Duration(b.waiting) * b.each; wait > backlogMost {
		return errs.ErrOverloaded.WithRetry(wait.Round(time.Second))
	}
	b.waiting++
	return nil
}

func (b *backlog) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
}

func (b *backlog) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting == 0
}

// served learns from a group of n that took so long. A small group can only lower the estimate.
func (b *backlog) served(n int, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	each := took / time.Duration(n)
	if n >= backlogSample {
		b.each = (b.each + each) / 2
	} else {
		b.each = min(b.each, each)
	}
}
