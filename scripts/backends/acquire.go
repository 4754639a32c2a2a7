package backends

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"urr.guru/scripts/internal/process"
)

// acquiredFile lists the backends that only tests have started.
func (s *Set) acquiredFile() string { return s.layout.State("run", "lent") }

// StartAndKeep starts the backends. They run until Stop, even those that a test run has started.
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

// Acquire starts the backends for a test run. The last test run of the checkout that releases them stops those that only tests have
// started, unless StartAndKeep was called meanwhile.
func (s *Set) Acquire(ctx context.Context) (release func(context.Context) error, err error) {
	users := s.layout.State("run", "tests.lock")
	mine, err := process.Share(ctx, users)
	if err != nil {
		return nil, err
	}
	release = func(ctx context.Context) error {
		mine()
		return s.stopAcquired(context.WithoutCancel(ctx), users) // after an interruption too
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

// acquire writes down what it is going to start before it starts it, so that after a killed test run the next one stops it. A backend
// that has died is not written down: it belongs to whoever keeps it.
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

// notRequested lists the backends of the set that do not run and were not started on request since the machine's boot.
func (s *Set) notRequested() []string {
	var names []string
	for _, name := range s.Missing() {
		r, found, err := s.load(name)
		if err != nil || !found || r.Stopping || !r.ThisBoot() {
			names = append(names, name)
		}
	}
	return names
}

func (s *Set) stopAcquired(ctx context.Context, users string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	free, last, err := process.TryLock(users)
	if err != nil || !last {
		return err
	}
	defer free()
	var names []string
	if found, err := process.Load(s.acquiredFile(), &names); err != nil || !found {
		return err
	}
	if len(names) > 0 {
		if err := s.stopNamed(names...); err != nil {
			return err
		}
	}
	return os.Remove(s.acquiredFile())
}
