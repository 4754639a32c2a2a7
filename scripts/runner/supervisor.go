package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"urr.guru/pkg/filelock"
	"urr.guru/pkg/loop"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// Supervise starts each service after the services that it needs, and restarts it when it exits.
// When ctx ends, it stops all services in the reverse order. It also restarts backends that die,
// but does not stop them.
func (r *Runner) Supervise(ctx context.Context, log *slog.Logger) error {
	// The kernel releases this lock when the supervisor ends, even if it is killed.
	unlock, alone, err := filelock.TryLock(r.layout.State("run", "supervisor.lock"))
	if err != nil {
		return err
	}
	if !alone {
		return errors.New("another supervisor of this checkout runs")
	}
	defer unlock()
	// The command that started this supervisor saves the same file, unless it is killed before that.
	if err := r.saveRecord(); err != nil {
		return err
	}
	watchers := make([]*serviceWatcher, len(r.services))
	for i, s := range r.services {
		watchers[i] = &serviceWatcher{Runner: r, service: s, log: log.With("service", s.Name), stop: make(chan struct{})}
	}
	var wg sync.WaitGroup
	for _, w := range watchers {
		wg.Go(func() { w.run(ctx) })
	}
	for _, k := range r.restarters(log) {
		wg.Go(func() { k.run(ctx) })
	}
	<-ctx.Done()
	var errs []error
	for _, w := range slices.Backward(watchers) {
		errs = append(errs, w.end())
	}
	wg.Wait()
	if err := os.Remove(r.layout.RunFile(supervisorName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Runner) restarters(log *slog.Logger) []*restarter {
	set := backends.New(r.layout, false, func(format string, args ...any) {
		log.Info("backends", "note", fmt.Sprintf(format, args...))
	})
	var restarters []*restarter
	for _, name := range set.Names() {
		restarters = append(restarters, &restarter{name: name, backends: set, log: log.With("backend", name)})
	}
	return restarters
}

func (r *Runner) saveRecord() error {
	me, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	return process.Save(r.layout.RunFile(supervisorName), runRecord{Identity: me, Started: time.Now()})
}

// serviceWatcher starts one service, and restarts it whenever it exits.
type serviceWatcher struct {
	*Runner
	service platform.Service
	log     *slog.Logger
	stop    chan struct{} // closed when the service must not be started again

	mu      sync.Mutex
	current *process.Process
}

// run starts the service whenever it is not running. It returns after end is called.
func (w *serviceWatcher) run(ctx context.Context) {
	if !w.awaitNeeds(ctx) {
		return
	}
	var rec runRecord
	var wait backoff
	for ; ; rec.Restarts++ {
		began := time.Now()
		var stopped bool
		if rec, stopped = w.runOnce(rec); stopped {
			return
		}
		uptime := time.Since(began)
		w.log.Warn("ended", "exit", rec.LastExit, "lived", uptime.String())
		select {
		case <-w.stop:
			return
		case <-w.after(wait.nextDelay(uptime)):
		}
	}
}

// runOnce starts the service, waits until it exits, and records the exit unless it was stopped.
func (w *serviceWatcher) runOnce(rec runRecord) (after runRecord, stopped bool) {
	rec, p, err := w.begin(rec)
	switch {
	case err != nil:
		rec.LastExit = err.Error()
	case p == nil:
		return rec, true
	default:
		<-p.Done()
		rec.LastExit = p.Exit()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping() {
		return rec, true
	}
	if err := process.Save(w.layout.RunFile(w.service.Name), rec); err != nil {
		w.log.Error("remember the end", "error", err)
	}
	return rec, false
}

func (w *serviceWatcher) stopping() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// begin starts the service unless it is being stopped. While it holds mu, end waits for it.
func (w *serviceWatcher) begin(rec runRecord) (runRecord, *process.Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping() {
		return rec, nil, nil
	}
	fingerprint, err := w.fingerprint(w.service)
	if err != nil {
		return rec, nil, err
	}
	p, err := process.Start(w.ReplicaSpec(w.service, w.service.Name, w.layout.Listen(w.service)))
	if err != nil {
		return rec, nil, err
	}
	rec.Identity, rec.Started, rec.Fingerprint = p.Identity, time.Now(), fingerprint
	if err := process.Save(w.layout.RunFile(w.service.Name), rec); err != nil {
		return rec, nil, errors.Join(err, p.Stop(syscall.SIGTERM, stopGrace))
	}
	w.log.Info("started", "pid", p.PID, "restarts", rec.Restarts)
	w.current = p
	return rec, p, nil
}

func (w *serviceWatcher) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.stop)
	if w.current != nil {
		if err := w.current.Stop(syscall.SIGTERM, stopGrace); err != nil {
			return fmt.Errorf("%s: %w", w.service.Name, err)
		}
	}
	if err := os.Remove(w.layout.RunFile(w.service.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// awaitNeeds waits until the services that this one needs are ready. It returns false if ctx ends
// first.
func (w *serviceWatcher) awaitNeeds(ctx context.Context) bool {
	for _, name := range w.service.Needs {
		i := slices.IndexFunc(w.services, func(s platform.Service) bool { return s.Name == name })
		needed := w.services[i]
		for w.checkReady(ctx, needed) != nil {
			if !loop.Sleep(ctx, 100*time.Millisecond) {
				return false
			}
		}
	}
	return true
}

// The delay before a restart doubles until the process has run for steadyAfter.
const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 10 * time.Second
	steadyAfter  = 30 * time.Second
)

// backoff is the delay before a process was last restarted.
type backoff time.Duration

// nextDelay returns the delay before the next restart of a process that has run for uptime.
func (b *backoff) nextDelay(uptime time.Duration) time.Duration {
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

// backendReviver has the methods of backends.Set that a restarter uses.
type backendReviver interface {
	// Died reports whether a backend has ended without being stopped. It also returns its last start.
	Died(name string) (lastStart time.Time, died bool)
	// Revive restarts a backend. revived is false if the backend runs, or should not run.
	Revive(ctx context.Context, name string) (revived bool, err error)
}

// restarter restarts one backend whenever it dies. It never stops the backend, which runs on when
// the services stop.
type restarter struct {
	name     string
	backends backendReviver
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
		if !loop.Sleep(ctx, wait.nextDelay(uptime)) {
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

// awaitDeath waits until the backend has died, and returns when the backend was last started. If
// ctx ends first, died is false.
func (k *restarter) awaitDeath(ctx context.Context) (lastStart time.Time, died bool) {
	for {
		if lastStart, died = k.backends.Died(k.name); died {
			return lastStart, true
		}
		if !loop.Sleep(ctx, pollInterval) {
			return lastStart, false
		}
	}
}
