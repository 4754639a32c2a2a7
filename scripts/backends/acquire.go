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

// acquiredFile lists the running backends that only test runs have requested.
func (s *Set) acquiredFile() string { return s.layout.State("run", "lent") }

// StartAndKeep starts the backends. They run until Stop, even if a test run started them.
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

// Acquire starts the backends for a test run. When the checkout's last test run releases them,
// those that only test runs have requested are stopped, unless StartAndKeep was called meanwhile.
func (s *Set) Acquire(ctx context.Context) (release func(context.Context) error, err error) {
	users := s.layout.State("run", "tests.lock")
	mine, err := filelock.Share(ctx, users)
	if err != nil {
		return nil, err
	}
	release = func(ctx context.Context) error {
		mine()
		return s.stopAcquired(context.WithoutCancel(ctx), users) // also after an interrupt
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

// acquire records the backends before it starts them, so that after a killed test run the next one
// stops them. A backend that died is not recorded: it still belongs to its supervisor.
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

// notRequested lists the set's backends that are not running and that no command has asked for
// since the machine booted. Only test runs use those.
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

// stopAcquired stops the backends that only test runs have requested, unless another test run still
// holds a share of the lock file users.
func (s *Set) stopAcquired(ctx context.Context, users string) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	free, last, err := filelock.TryLock(users)
	if err != nil || !last {
		return err
	}
	defer free()
	var names []string
	if found, err := process.Load(s.acquiredFile(), &names); err != nil || !found {
		return err
	}
	if len(names) > 0 { // without names all would be stopped
		if err := s.stopNamed(names...); err != nil {
			return err
		}
	}
	return os.Remove(s.acquiredFile())
}
