package runner

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
)

// Delays between restarts grow until the restarted process has run for a while.
const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 10 * time.Second
	steadyAfter  = 30 * time.Second
)

// backoff is the delay before the last restart.
type backoff time.Duration

// after returns the delay before the next restart of a process that ran for the given time.
func (b *backoff) after(uptime time.Duration) time.Duration {
	switch {
	case *b == 0 || uptime > steadyAfter:
		*b = backoff(firstBackoff)
	default:
		*b = min(2**b, backoff(maxBackoff))
	}
	return time.Duration(*b)
}

// pollInterval is how often a restarter checks whether its backend has died.
const pollInterval = 250 * time.Millisecond

// reviver is the part of the backends that a restarter uses.
type reviver interface {
	// Died reports whether a backend has ended without a stop, and when it last started or was last
	// tried.
	Died(name string) (since time.Time, died bool)
	// Revive restarts it; revived is false when it runs, or is not supposed to run.
	Revive(ctx context.Context, name string) (revived bool, err error)
}

// restarter restarts one backend when it dies. It does not stop it: backends outlive the services.
type restarter struct {
	name     string
	backends reviver
	log      *slog.Logger
}

func (k *restarter) run(ctx context.Context) {
	var wait backoff
	for {
		since, died := k.awaitDeath(ctx)
		if !died {
			return
		}
		uptime := time.Since(since)
		k.log.WarnContext(ctx, "ended", "lived", uptime.String())
		if !loop.Sleep(ctx, wait.after(uptime)) {
			return
		}
		began := time.Now()
		revived, err := k.backends.Revive(ctx, k.name)
		switch {
		case err != nil:
			k.log.ErrorContext(ctx, "did not come back", "error", err)
		case revived:
			k.log.InfoContext(ctx, "is back", "after", time.Since(began).String())
		}
	}
}

// awaitDeath returns when the backend has died; died is false when ctx ended first.
func (k *restarter) awaitDeath(ctx context.Context) (since time.Time, died bool) {
	for {
		if since, died = k.backends.Died(k.name); died {
			return since, true
		}
		if !loop.Sleep(ctx, pollInterval) {
			return since, false
		}
	}
}
