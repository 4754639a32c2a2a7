// Package limit bounds how much is done at once, and how much waits for that.
package limit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"urr.guru/pkg/errs"
)

// retryAfter is when a refused caller may try again.
const retryAfter = time.Second

// Limiter runs functions of its callers, a bounded number at once; the others wait in the order of
// their arrival.
type Limiter struct {
	running *semaphore.Weighted
	// most is the most calls accepted at once: those that run and those that wait.
	most int

	mu       sync.Mutex
	accepted int
	closed   bool
	idle     chan struct{} // closed when a closed limiter has no accepted call left
}

// New makes a Limiter for `running` calls at once and `waiting` more that wait.
func New(running, waiting int) *Limiter {
	return &Limiter{running: semaphore.NewWeighted(int64(running)), most: running + waiting, idle: make(chan struct{})}
}

// Do runs fn in its turn and returns its error; errs.ErrOverloaded when too many wait already,
// errs.ErrUnavailable after Close, and the context's error when ctx ends before it is fn's turn.
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
	if l.accepted >= l.most {
		return errs.ErrOverloaded.WithRetry(retryAfter)
	}
	l.accepted++
	return nil
}

func (l *Limiter) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted--
	if l.closed && l.accepted == 0 {
		close(l.idle)
	}
}

// Close refuses further calls and waits until the accepted ones have ended, or ctx ends.
func (l *Limiter) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if l.accepted == 0 {
			close(l.idle)
		}
	}
	l.mu.Unlock()
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
