package backends

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"urr.guru/scripts/internal/process"
)

// lent is the file that lists the backends which run for tests alone.
func (s *Set) lent() string { return s.layout.State("run", "lent") }

// Keep is Start for backends that are to stay until Stop, though a test may have started them.
func (s *Set) Keep(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(s.lent()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the backends: %w", err)
	}
	if err := s.layout.KeepOffset(); err != nil {
		return err
	}
	return s.startMissing(ctx)
}

// Lend is Start for a test run. Giving them back stops what only tests have started, when the last test run of the checkout is done and
// nobody has asked for them to be kept meanwhile.
func (s *Set) Lend(ctx context.Context) (giveBack func(context.Context) error, err error) {
	users := s.layout.State("run", "tests.lock")
	mine, err := process.Share(ctx, users)
	if err != nil {
		return nil, err
	}
	giveBack = func(ctx context.Context) error {
		mine()
		return s.stopLent(context.WithoutCancel(ctx), users) // after an interruption too
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, errors.Join(err, giveBack(ctx))
	}
	err = s.lend(ctx)
	unlock()
	if err != nil {
		return nil, errors.Join(err, giveBack(ctx))
	}
	return giveBack, nil
}

// lend notes what it is going to start before it does: a test run that is killed leaves it to the next. What has died is not
// noted: whoever keeps it still does.
func (s *Set) lend(ctx context.Context) error {
	var names []string
	if _, err := process.Load(s.lent(), &names); err != nil {
		return err
	}
	if err := process.Save(s.lent(), append(names, s.unwanted()...)); err != nil {
		return err
	}
	return s.startMissing(ctx)
}

// unwanted lists the backends of the set that do not run and that nobody has asked for since the machine's boot.
func (s *Set) unwanted() []string {
	var names []string
	for _, name := range s.Missing() {
		r, found, err := s.load(name)
		if err != nil || !found || r.Stopping || !r.ThisBoot() {
			names = append(names, name)
		}
	}
	return names
}

func (s *Set) stopLent(ctx context.Context, users string) error {
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
	if found, err := process.Load(s.lent(), &names); err != nil || !found {
		return err
	}
	if len(names) > 0 {
		if err := s.stopNamed(names...); err != nil {
			return err
		}
	}
	return os.Remove(s.lent())
}
