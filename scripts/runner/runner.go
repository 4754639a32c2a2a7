// Package runner runs the platform for development. It builds the services, starts them under a
// supervisor, a process that continues when the command ends, and prints their status.
package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"urr.guru/pkg/filelock"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/internal/fetch"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

const (
	readyLimit   = 60 * time.Second // until a started service is ready
	migrateLimit = 2 * time.Minute
	stopGrace    = 30 * time.Second // more than the services' own SHUTDOWN_TIMEOUT of 20 s
)

const supervisorName = "supervisor"

// Runner starts and stops the platform of one checkout.
type Runner struct {
	layout   platform.Layout
	services []platform.Service // in start order
	secrets  platform.Secrets
	say      func(format string, args ...any)
	after    func(time.Duration) <-chan time.Time // waits before a restart; time.After, except in tests
}

// New returns a runner. If the checkout has no secrets, it generates them.
func New(ctx context.Context, layout platform.Layout, say func(format string, args ...any)) (*Runner, error) {
	secrets, err := platform.LoadSecrets(ctx, layout)
	if err != nil {
		return nil, err
	}
	return &Runner{layout: layout, services: platform.Services(), secrets: secrets, say: say, after: time.After}, nil
}

// runRecord is the content of a service's run file, which the commands status and down read.
type runRecord struct {
	process.Identity
	Started     time.Time `json:"started"`
	Fingerprint string    `json:"fingerprint"` // hash of the program and environment with which it runs
	Restarts    int       `json:"restarts"`
	LastExit    string    `json:"last_exit,omitempty"`
}

func (r *Runner) loadRecord(name string) (runRecord, bool, error) {
	var rec runRecord
	found, err := process.Load(r.layout.RunFile(name), &rec)
	return rec, found, err
}

// lock waits until no other command of this checkout starts or stops the platform.
func (r *Runner) lock(ctx context.Context) (unlock func(), err error) {
	return filelock.Lock(ctx, r.layout.State("run", "lock"), func() { r.say("waiting for another command in this checkout to finish") })
}

// Down stops the services, the supervisor and the backends. If it returns no error, no process of
// this checkout runs any more.
func (r *Runner) Down(ctx context.Context) error {
	return r.stopAll(ctx, func(set *backends.Set) error { return set.Stop(ctx) })
}

// Reset does what Down does, and removes the data of the backends and the payment sandbox. The
// programs, jars and secrets stay, so that the next start downloads nothing.
func (r *Runner) Reset(ctx context.Context) error {
	err := r.stopAll(ctx, (*backends.Set).Wipe)
	if err == nil {
		r.say("all data is removed; programs and jars stay")
	}
	return err
}

func (r *Runner) stopAll(ctx context.Context, stopBackends func(*backends.Set) error) error {
	unlock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.stopServices(); err != nil {
		return err
	}
	if err := stopBackends(backends.New(r.layout, true, r.say)); err != nil {
		return err
	}
	return r.layout.ForgetOffset()
}

// StopBackends stops the backends only. While services run, the checkout's port offset stays.
func (r *Runner) StopBackends(ctx context.Context) error {
	if err := backends.New(r.layout, true, r.say).Stop(ctx); err != nil || r.anyRunning() {
		return err
	}
	return r.layout.ForgetOffset()
}

// stopServices stops the supervisor, which stops the services in reverse order of their start. If
// the supervisor was killed, it stops the remaining services one by one.
func (r *Runner) stopServices() error {
	supervisor, found, err := r.loadRecord(supervisorName)
	if err != nil {
		return err
	}
	if found && supervisor.Alive() {
		if err := supervisor.Stop(syscall.SIGTERM, time.Duration(len(r.services))*stopGrace); err != nil {
			return fmt.Errorf("supervisor: %w", err)
		}
		r.say("%-16s stopped", "services")
	}
	for _, s := range slices.Backward(r.services) {
		if err := r.stopLeftover(s.Name); err != nil {
			return err
		}
	}
	return r.stopLeftover(supervisorName)
}

func (r *Runner) stopLeftover(name string) error {
	rec, found, err := r.loadRecord(name)
	if err != nil || !found {
		return err
	}
	if rec.Alive() {
		if err := rec.Stop(syscall.SIGTERM, stopGrace); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.say("%-16s stopped", name)
	}
	if err := os.Remove(r.layout.RunFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

// checkReady returns an error unless a service's /readyz says that it is ready.
func (r *Runner) checkReady(ctx context.Context, s platform.Service) error {
	_, err := fetch.Get(ctx, "http://"+r.layout.LoopbackAddr(s.OpsPort)+"/readyz")
	return err
}
