package handlers

import (
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/errs"
)

// Limits of a backlog.
const (
	// backlogWait is how long the last request of a full backlog waits at the measured rate. It is well
	// below callTimeout, so that accepted requests are answered.
	backlogWait = time.Second
	// backlogIdleMin bounds the limit from below while it is not reached: the measured rate is then that
	// of the demand. Otherwise a sale that begins would be refused because little was sold before.
	backlogIdleMin = 512
	// backlogMin requests are accepted at any rate.
	backlogMin    = 64
	backlogWindow = 250 * time.Millisecond
	// backlogMaxGap is the length of a pause after which the measured rate is discarded.
	backlogMaxGap = 5 * time.Second
	backlogRetry  = time.Second
)

// backlog limits the requests of a kind that are in progress to those that the service completes within
// backlogWait. A longer backlog would not complete more requests, but make them wait longer, in the end
// until their clients have left. Requests beyond the limit are refused before they cost anything.
type backlog struct {
	now          func() time.Time
	inProgress   atomic.Int64
	completed    atomic.Int64 // in this window
	limit        atomic.Int64
	limitReached atomic.Bool // in this window

	mu     sync.Mutex // held while a window is closed
	opened time.Time
	rate   float64 // completed per second; 0: not known
}

func newBacklog(now func() time.Time) *backlog {
	b := &backlog{now: now, opened: now()}
	b.limit.Store(backlogIdleMin)
	return b
}

func (b *backlog) refusal() error {
	if b.inProgress.Load() < b.limit.Load() {
		return nil
	}
	b.limitReached.Store(true)
	return errs.ErrOverloaded.WithRetry(backlogRetry)
}

// run calls fn. When too many requests are in progress, it fails with errs.ErrOverloaded instead.
func (b *backlog) run(fn func() error) error {
	if b.inProgress.Add(1) > b.limit.Load() {
		b.inProgress.Add(-1)
		b.limitReached.Store(true)
		return errs.ErrOverloaded.WithRetry(backlogRetry)
	}
	defer b.inProgress.Add(-1)
	err := fn()
	b.countCompleted(err)
	return err
}

// countCompleted counts a request that the service has granted or refused; failures do not count.
func (b *backlog) countCompleted(err error) {
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
		b.endWindow(now)
	}
}

// endWindow measures the rate of a window; b.mu is held. A window of twice its length had a pause,
// in which nothing was requested or the service stood still, so it does not count.
func (b *backlog) endWindow(now time.Time) {
	took := now.Sub(b.opened)
	completed, reached := float64(b.completed.Swap(0)), b.limitReached.Swap(false) || b.inProgress.Load() >= b.limit.Load()
	b.opened = now
	switch {
	case took > backlogMaxGap:
		b.rate = 0
		b.limit.Store(backlogIdleMin)
		return
	case took >= 2*backlogWindow:
		return
	case b.rate == 0:
		b.rate = completed / took.Seconds()
	default:
		b.rate = (b.rate + completed/took.Seconds()) / 2
	}
	least := int64(backlogIdleMin)
	if reached {
		least = backlogMin
	}
	b.limit.Store(max(least, int64(b.rate*backlogWait.Seconds())))
}
