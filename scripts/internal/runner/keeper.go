package runner

import (
	"context"
	"log/slog"
	"time"
)

// Restarts wait longer each time, until what is restarted has lived for a while.
const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 10 * time.Second
	steadyAfter  = 30 * time.Second
)

// backoff is how long the last restart waited.
type backoff time.Duration

// after is how long the next restart waits, of something that has lived so long.
func (b *backoff) after(uptime time.Duration) time.Duration {
	switch {
	case *b == 0 || uptime > steadyAfter:
		*b = backoff(firstBackoff)
	default:
		*b = min(2**b, backoff(maxBackoff))
	}
	return time.Duration(*b)
}

// pollInterval is how often a keeper looks whether its backend has died.
const pollInterval = 250 * time.Millisecond

// reviver is what a keeper needs of the backends.
type reviver interface {
	// Died tells whether a backend has ended though nobody stopped it, and since when it had run or was last tried.
	Died(name string) (since time.Time, died bool)
	// Revive starts it again; revived is false when it runs, or is not to run.
	Revive(ctx context.Context, name string) (revived bool, err error)
}

// restarter starts one backend again whenever it has died. It does not stop it: backends outlive the services.
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
		if !pause(ctx, wait.after(uptime)) {
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

// awaitDeath returns when the backend has died; died is false when ctx has ended before.
func (k *restarter) awaitDeath(ctx context.Context) (since time.Time, died bool) {
	for {
		if since, died = k.backends.Died(k.name); died {
			return since, true
		}
		if !pause(ctx, pollInterval) {
			return since, false
		}
	}
}

// pause tells whether d has passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
