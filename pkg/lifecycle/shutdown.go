package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lastWord is how long what has no time left may still take to say how it ended.
const lastWord = 100 * time.Millisecond

// shutdown ends servers, workers and closers within ShutdownTimeout in all. What does not end in
// time is named in the error and left behind: the process exits with code 1 then. None can use up
// the time of those after it: servers get half of it, workers three quarters of what they leave,
// closers the rest.
func (a *App) shutdown(base context.Context) error {
	ctx, cancel := context.WithTimeout(base, a.cfg.ShutdownTimeout)
	defer cancel()
	problems := []error{a.endAll(ctx, a.servers, 1, 2), a.endAll(ctx, a.workers, 3, 4), a.close(ctx)}
	for drained := false; !drained; { // a task that failed on its way out must not pass for a clean stop
		select {
		case err := <-a.failed:
			problems = append(problems, err)
		default:
			drained = true
		}
	}
	return errors.Join(problems...)
}

// endAll ends started tasks, last registered first, in num/den of the time that ctx has left.
func (a *App) endAll(ctx context.Context, tasks []*task, num, den int64) error {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)*time.Duration(num)/time.Duration(den))
	defer cancel()
	var problems []error
	for i := len(tasks) - 1; i >= 0; i-- {
		if t := tasks[i]; t.done != nil {
			problems = append(problems, a.end(ctx, t))
		}
	}
	return errors.Join(problems...)
}

func (a *App) end(ctx context.Context, t *task) error {
	start := time.Now()
	var err error
	if t.stop != nil {
		err = a.bounded(ctx, t.stop)
	}
	t.cancel()
	if !ended(ctx, t.done) {
		err = errors.Join(err, a.late())
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", t.name, err)
	}
	a.log.Debug("ended", "task", t.name, "took", time.Since(start).String())
	return nil
}

// close calls the closers, last registered first.
func (a *App) close(ctx context.Context) error {
	var problems []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		if err := a.bounded(ctx, a.closers[i].fn); err != nil {
			problems = append(problems, fmt.Errorf("close %s: %w", a.closers[i].name, err))
		}
	}
	a.closers = nil
	return errors.Join(problems...)
}

// bounded calls fn, and leaves it behind when it does not heed the end of ctx: a pool waits for
// every connection that a stuck worker holds, and does not know contexts.
func (a *App) bounded(ctx context.Context, fn func(context.Context) error) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = guarded(ctx, fn)
	}()
	if !ended(ctx, done) {
		return a.late()
	}
	return err
}

func (a *App) late() error { return fmt.Errorf("did not end in its part of %v", a.cfg.ShutdownTimeout) }

// ended waits for done until a moment after the end of ctx, in which what heeds ctx ends by itself.
func ended(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	case <-time.After(lastWord):
		return false
	}
}
