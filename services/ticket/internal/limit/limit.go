// Package limit limits how many calls run at the same time, and how many wait to run.
package limit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"
)

// retryAfter is the time after which a refused caller should try again.
const retryAfter = time.Second

// Limiter runs a limited number of calls at once. Further calls wait in the order of their arrival.
type Limiter struct {
	running *semaphore.Weighted
	// maxAccepted is the most calls that run or wait.
	maxAccepted int

	mu       sync.Mutex
	accepted int
	closed   bool
	work     sync.WaitGroup // the accepted calls
}

// New makes a Limiter that runs up to `running` calls at once and lets up to `waiting` more wait.
func New(running, waiting int) *Limiter {
	return &Limiter{running: semaphore.NewWeighted(int64(running)), maxAccepted: running + waiting}
}

// Do calls Limiter.Do with a function that also returns a value.
func Do[T any](ctx context.Context, l *Limiter, fn func() (T, error)) (value T, err error) {
	err = l.Do(ctx, func() error {
		value, err = fn()
		return err
	})
	return value, err
}

// Do waits until fn may run, runs it, and returns its error. Other errors: errs.ErrOverloaded when
// too many calls wait already, errs.ErrUnavailable after Close, and the error of ctx when ctx ends
// before fn has begun.
func (l *Limiter) Do(ctx context.Context, fn func() error) error {
	if err := l.accept(); err != nil {
		return err
	}
	defer l.leave()
	if err := l.running.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.running.Release(1)
	return fn()
}

func (l *Limiter) accept() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errs.ErrUnavailable
	}
	if l.accepted >= l.maxAccepted {
		return errs.ErrOverloaded.WithRetry(retryAfter)
	}
	l.accepted++
	l.work.Add(1)
	return nil
}

func (l *Limiter) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted--
	l.work.Done()
}

// Close refuses further calls and waits until the accepted ones have ended, or ctx ends.
func (l *Limiter) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return loop.Wait(ctx, &l.work)
}
