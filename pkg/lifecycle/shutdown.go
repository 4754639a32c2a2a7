package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// reportGrace is how much longer than its deadline a task may take to report that it has ended.
const reportGrace = 100 * time.Millisecond

// shutdown ends servers, workers and closing functions within ShutdownTimeout in total. Whatever
// does not end in time is named in the error and abandoned: the process then exits with code 1. No
// group can use up the time of the next: servers get half of the time, workers three quarters of
// the rest, closing functions what remains.
func (a *App) shutdown(base context.Context) error {
	ctx, cancel := context.WithTimeout(base, a.cfg.ShutdownTimeout)
	defer cancel()
	problems := []error{a.stopTasks(ctx, a.servers, 1, 2), a.stopTasks(ctx, a.workers, 3, 4), a.runClosers(ctx)}
	select { // a task may have failed while it was stopped
	case err := <-a.failed:
		problems = append(problems, err)
	default:
	}
	return errors.Join(problems...)
}

// stopTasks ends tasks, the last registered first, within num/den of the time left in ctx. It also
// stops servers that were never started, since they may have goroutines already.
func (a *App) stopTasks(ctx context.Context, tasks []*task, num, den int64) error {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)*time.Duration(num)/time.Duration(den))
	defer cancel()
	var problems []error
	for i := len(tasks) - 1; i >= 0; i-- {
		switch t := tasks[i]; {
		case t.done != nil:
			problems = append(problems, a.stopTask(ctx, t))
		case t.stop != nil:
			problems = append(problems, a.callWithin(ctx, t.stop))
		}
	}
	return errors.Join(problems...)
}

func (a *App) stopTask(ctx context.Context, t *task) error {
	start := time.Now()
	var err error
	if t.stop != nil {
		err = a.callWithin(ctx, t.stop)
	}
	t.cancel()
	if !waitDone(ctx, t.done) {
		err = errors.Join(err, a.errTimeout())
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", t.name, err)
	}
	a.log.Debug("ended", "task", t.name, "took", time.Since(start).String())
	return nil
}

func (a *App) runClosers(ctx context.Context) error {
	var problems []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		if err := a.callWithin(ctx, a.closers[i].fn); err != nil {
			problems = append(problems, fmt.Errorf("close %s: %w", a.closers[i].name, err))
		}
	}
	a.closers = nil
	return errors.Join(problems...)
}

// callWithin calls fn, and abandons it if it has not returned at the end of ctx. Closing a pool,
// for example, waits for the connections of a stuck worker and takes no context.
func (a *App) callWithin(ctx context.Context, fn func(context.Context) error) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = recoverPanics(ctx, fn)
	}()
	if !waitDone(ctx, done) {
		return a.errTimeout()
	}
	return err
}

func (a *App) errTimeout() error {
	return fmt.Errorf("did not end in its part of %v", a.cfg.ShutdownTimeout)
}

// waitDone waits until done is closed, at most until reportGrace after the end of ctx; it returns
// whether done was closed.
func waitDone(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	case <-time.After(reportGrace):
		return false
	}
}
