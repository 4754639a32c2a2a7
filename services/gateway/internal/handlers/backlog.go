package handlers

import (
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/errs"
)

// Limits of a backlog.
const (
	// backlogWait is how long the last request of a backlog waits, at the present pace. It is well
	// below callTimeout, so that accepted requests are answered.
	backlogWait = time.Second
	// backlogUnreached is the least bound while fewer requests arrive: their pace is not the one that
	// is possible. A sale that begins is not refused because little was sold before.
	backlogUnreached = 512
	// backlogLeast requests are accepted at any pace.
	backlogLeast = 64
	// backlogWindow is the time over which the pace is measured.
	backlogWindow = 250 * time.Millisecond
	// backlogForget is the length of a pause after which the pace of before says nothing.
	backlogForget = 5 * time.Second
	// backlogRetry is when a refused visitor may try again.
	backlogRetry = time.Second
)

// backlog bounds the requests of a kind that are in progress, to those that the service behind
// completes within backlogWait. A longer backlog completes no more requests: they only wait longer,
// in the end until nobody waits for their answer. Requests above the bound can be refused before
// they cost anything.
type backlog struct {
	now        func() time.Time
	inProgress atomic.Int64
	completed  atomic.Int64 // in this window
	most       atomic.Int64
	reached    atomic.Bool // most was reached in this window

	mu     sync.Mutex // held while a window is closed
	opened time.Time
	pace   float64 // completed per second; 0: not known
}

func newBacklog(now func() time.Time) *backlog {
	b := &backlog{now: now, opened: now()}
	b.most.Store(backlogUnreached)
	return b
}

// refusal is errs.ErrOverloaded when a request would be refused now.
func (b *backlog) refusal() error {
	if b.inProgress.Load() < b.most.Load() {
		return nil
	}
	b.reached.Store(true)
	return errs.ErrOverloaded.WithRetry(backlogRetry)
}

// do runs a request; errs.ErrOverloaded when there are too many.
func (b *backlog) do(fn func() error) error {
	if b.inProgress.Add(1) > b.most.Load() {
		b.inProgress.Add(-1)
		b.reached.Store(true)
		return errs.ErrOverloaded.WithRetry(backlogRetry)
	}
	defer b.inProgress.Add(-1)
	err := fn()
	b.complete(err)
	return err
}

// complete counts a request that the service behind has decided, whether it was granted or not.
func (b *backlog) complete(err error) {
	if err != nil {
		switch errs.From(err).Kind {
		case errs.Unavailable, errs.Exhausted, errs.Deadline, errs.Canceled, errs.Internal:
			return
		default:
		}
	}
	b.completed.Add(1)
	now := b.now()
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	if now.Sub(b.opened) >= backlogWindow {
		b.close(now)
	}
}

// close ends the window; b.mu is held. A window without completions at its end is a pause: nothing
// was asked for, or the service behind stood still for a moment. Neither is a slow pace.
func (b *backlog) close(now time.Time) {
	took := now.Sub(b.opened)
	completed, reached := float64(b.completed.Swap(0)), b.reached.Swap(false) || b.inProgress.Load() >= b.most.Load()
	b.opened = now
	switch {
	case took > backlogForget:
		b.pace = 0
		b.most.Store(backlogUnreached)
		return
	case took >= 2*backlogWindow:
		return
	case b.pace == 0:
		b.pace = completed / took.Seconds()
	default:
		b.pace = (b.pace + completed/took.Seconds()) / 2
	}
	least := int64(backlogUnreached)
	if reached {
		least = backlogLeast
	}
	b.most.Store(max(least, int64(b.pace*backlogWait.Seconds())))
}
