package handlers

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/errs"
)

// Settings of all backlogs.
const (
	// backlogWait is the time in which the service completes as many requests as may be in progress.
	// It is well below callTimeout, so that accepted requests are answered in time.
	backlogWait = time.Second
	// backlogIdleMin is the lowest limit after a window in which the limit was not reached. In such a
	// window the measured rate shows only how few requests came, not what the service can do. A limit
	// computed from it would refuse the crowd at the beginning of a sale.
	backlogIdleMin = 512
	// backlogMin is the lowest limit in any window.
	backlogMin    = 64
	backlogWindow = 250 * time.Millisecond
	// backlogMaxGap is the longest pause between requests after which the measured rate is still used.
	backlogMaxGap = 5 * time.Second
	backlogRetry  = time.Second
)

// backlog limits how many requests of a kind are in progress: as many as the service completes
// within backlogWait. With more, none would be completed sooner, and all would wait longer, in the
// end until their clients leave. Requests beyond the limit are refused before they cost anything.
type backlog struct {
	now          func() time.Time
	inProgress   atomic.Int64
	completed    atomic.Int64 // requests completed in the present window
	limit        atomic.Int64
	limitReached atomic.Bool // whether the limit was reached in the present window

	mu     sync.Mutex // held while a window is closed
	opened time.Time
	rate   float64 // completed per second; 0: not known
}

func newBacklog(now func() time.Time) *backlog {
	b := &backlog{now: now, opened: now()}
	b.limit.Store(backlogIdleMin)
	return b
}

// refusal returns errs.ErrOverloaded while the limit is reached, else nil.
func (b *backlog) refusal() error {
	if b.inProgress.Load() < b.limit.Load() {
		return nil
	}
	b.limitReached.Store(true)
	return errs.ErrOverloaded.WithRetry(backlogRetry)
}

// run calls fn, unless too many requests are in progress. Then it fails with errs.ErrOverloaded.
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

// countCompleted counts a request to which the service has responded with a result or a refusal. It
// does not count a request that failed otherwise, such as by a time-out. A pause of a user is a
// refusal, not a failure.
func (b *backlog) countCompleted(err error) {
	if err != nil && !errors.Is(err, errs.ErrHoldPaused) {
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

// endWindow measures the rate of the window that ends now, and sets the limit; b.mu is held. It
// ignores a window that took twice its time: nothing was requested, or the service stood still.
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
