package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// shutdown ends servers, workers and closers within ShutdownTimeout in all. What does not end in time is named in the error and left
// behind: the process exits with code 1 then.
func (a *App) shutdown(base context.Context) error {
	ctx, cancel := context.WithTimeout(base, a.cfg.ShutdownTimeout)
	defer cancel()
	var problems []error
	for _, group := range [][]*task{a.servers, a.workers} {
		for i := len(group) - 1; i >= 0; i-- {
			problems = append(problems, a.end(ctx, group[i]))
		}
	}
	problems = append(problems, a.close(ctx))
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

func (a *App) end(ctx context.Context, t *task) error {
	start := time.Now()
	var err error
	if t.stop != nil {
		err = t.stop(ctx)
	}
	t.cancel()
	select {
	case <-t.done:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("did not end within %v", a.cfg.ShutdownTimeout))
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
		if err := a.closers[i].fn(ctx); err != nil {
			problems = append(problems, fmt.Errorf("close %s: %w", a.closers[i].name, err))
		}
	}
	a.closers = nil
	return errors.Join(problems...)
}
