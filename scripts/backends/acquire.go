package backends

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"urr.guru/pkg/filelock"
	"urr.guru/scripts/process"
)

// acquiredFile returns the path of a list of the running backends that only test runs have started.
func (s *Set) acquiredFile() string { return s.layout.State("run", "lent") }

// StartAndKeep starts missing backends. All, even those that test runs started, run until Stop.
func (s *Set) StartAndKeep(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(s.acquiredFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the backends: %w", err)
	}
	if err := s.layout.KeepOffset(); err != nil {
		return err
	}
	return s.startMissing(ctx)
}

// Acquire starts the backends for a test run. When the last test run of the checkout calls release,
// the backends that only test runs have started stop, unless StartAndKeep was called meanwhile.
func (s *Set) Acquire(ctx context.Context) (release func(context.Context) error, err error) {
	usersLock := s.layout.State("run", "tests.lock")
	endUse, err := filelock.LockShared(ctx, usersLock)
	if err != nil {
		return nil, err
	}
	release = func(ctx context.Context) error {
		endUse()
		return s.stopAcquired(context.WithoutCancel(ctx), usersLock) // even if ctx has ended
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, errors.Join(err, release(ctx))
	}
	err = s.acquire(ctx)
	unlock()
	if err != nil {
		return nil, errors.Join(err, release(ctx))
	}
	return release, nil
}

// acquire adds the backends to the list before it starts them, so that the next test run stops them
// if this one is killed. It does not list a backend that died: its supervisor will restart it.
func (s *Set) acquire(ctx context.Context) error {
	var names []string
	if _, err := process.Load(s.acquiredFile(), &names); err != nil {
		return err
	}
	if err := process.Save(s.acquiredFile(), append(names, s.notRequested()...)); err != nil {
		return err
	}
	return s.startMissing(ctx)
}

// notRequested returns the backends that do not run and that no command has started since the
// machine booted. If they are started now, only test runs need them.
func (s *Set) notRequested() []string {
	var names []string
	for _, name := range s.NotRunning() {
		r, found, err := s.loadRecord(name)
		if err != nil || !found || r.Stopping || !r.ThisBoot() {
			names = append(names, name)
		}
	}
	return names
}

// stopAcquired stops the backends that only test runs have started, unless another test run still
// holds a shared lock on the file usersLock.
func (s *Set) stopAcquired(ctx context.Context, usersLock string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	free, last, err := filelock.TryLock(usersLock)
	if err != nil || !last {
		return err
	}
	defer free()
	var names []string
	if found, err := process.Load(s.acquiredFile(), &names); err != nil || !found {
		return err
	}
	if len(names) > 0 { // an empty list would stop all backends
		if err := s.stopNamed(names...); err != nil {
			return err
		}
	}
	return os.Remove(s.acquiredFile())
}
