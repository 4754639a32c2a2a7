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
	// backlogLeast requests are accepted at any pace, so that a sale that begins is not refused
	// because nothing was sold before.
	backlogLeast = 512
	// backlogWindow is the time over which the pace is measured.
	backlogWindow = 250 * time.Millisecond
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

	mu     sync.Mutex // held while a window is closed
	opened time.Time
	pace   float64 // completed per second
}

func newBacklog(now func() time.Time) *backlog {
	b := &backlog{now: now, opened: now()}
	b.most.Store(backlogLeast)
	return b
}

// refusal is errs.ErrOverloaded when a request would be refused now.
func (b *backlog) refusal() error {
	if b.inProgress.Load() < b.most.Load() {
		return nil
	}
	return errs.ErrOverloaded.WithRetry(backlogRetry)
}

// do runs a request; errs.ErrOverloaded when there are too many.
func (b *backlog) do(fn func() error) error {
	if b.inProgress.Add(1) > b.most.Load() {
		b.inProgress.Add(-1)
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
		case errs.Unavailable, errs.Exhausted, errs.Deadline, errs.Canceled:
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
	took := now.Sub(b.opened)
	if took < backlogWindow {
		return
	}
	pace := float64(b.completed.Swap(0)) / took.Seconds()
	if took < 2*backlogWindow { // else there was a pause, before which the pace says nothing
		pace = (b.pace + pace) / 2
	}
	b.opened, b.pace = now, pace
	b.most.Store(max(backlogLeast, int64(pace*backlogWait.Seconds())))
}
