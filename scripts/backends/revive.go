package backends

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"urr.guru/scripts/internal/process"
)

// reviveLimit is how long a server may take to recover from what it could not finish; a loaded machine makes minutes of seconds.
const reviveLimit = 5 * time.Minute

// orphanGrace is how long a process that has outlived its server may take to end.
const orphanGrace = 5 * time.Second

// Names lists the backends of the set.
func (s *Set) Names() []string {
	names := make([]string, len(s.backends))
	for i, b := range s.backends {
		names[i] = b.name
	}
	return names
}

// Died tells whether a backend has ended though nobody stopped it, and since when it had run or was last tried.
func (s *Set) Died(name string) (since time.Time, died bool) {
	b, err := s.find(name)
	if err != nil {
		return time.Time{}, false
	}
	r, found, err := s.load(name)
	return r.Started, err == nil && found && r.wanted(b) && !r.Alive()
}

// wanted tells whether the backend is to run, as this set would run it.
func (r record) wanted(b backend) bool { return !r.Stopping && slices.Equal(r.Ports, b.ports) }

// Revive starts a backend again that has died, on the data that it left, and returns when it is ready; revived is false when
// it had not died, or was stopped meanwhile. Others may start and stop backends at the same time.
func (s *Set) Revive(ctx context.Context, name string) (revived bool, err error) {
	b, err := s.find(name)
	if err != nil {
		return false, err
	}
	p, spec, err := s.relaunch(ctx, b)
	if err != nil || p == nil {
		return false, err
	}
	// The lock is free again: whoever wants to stop the backend need not wait until it is ready.
	limited, cancel := context.WithTimeout(ctx, reviveLimit)
	defer cancel()
	err = p.WaitReady(limited, spec, b.ready)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err() // it may become ready all the same
	default:
		return false, s.giveUp(ctx, b, p, err)
	}
}

// relaunch gives no process when the backend runs, or is not to run.
func (s *Set) relaunch(ctx context.Context, b backend) (*process.Process, process.Spec, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, process.Spec{}, err
	}
	defer unlock()
	r, found, err := s.load(b.name)
	if err != nil || !found || !r.wanted(b) || r.Alive() {
		return nil, process.Spec{}, err
	}
	r.Restarts++
	r.LastExit = s.exit(b.name, r.Identity)
	p, spec, err := s.launch(b, r)
	if err != nil {
		r.Started = time.Now()
		r.LastExit, _, _ = strings.Cut(err.Error(), "\n")
		return nil, spec, errors.Join(err, process.Save(s.layout.Record(b.name), r))
	}
	return p, spec, nil
}

// exit says how a process ended, as far as that can be known: only its parent is told.
func (s *Set) exit(name string, id process.Identity) string {
	s.mu.Lock()
	p := s.started[name]
	s.mu.Unlock()
	if p == nil || p.Identity != id {
		return "ended"
	}
	<-p.Done()
	return p.Exit()
}

// giveUp ends a process that does not become ready, so that the next attempt begins anew, and returns why; a backend that was
// stopped on purpose meanwhile is no failure.
func (s *Set) giveUp(ctx context.Context, b backend, p *process.Process, why error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	defer unlock()
	r, found, err := s.load(b.name)
	if err != nil || !found || r.Stopping || r.Identity != p.Identity {
		return err
	}
	return errors.Join(why, p.Stop(b.stop, stopLimit))
}

// clear ends what a server that was killed has left running in its data folder: PostgreSQL's children, which hold its shared
// memory, or a server whose starter died before it could remember it. What it has left written there is in nobody's way but a
// file with its process id, which others may have by now.
func (s *Set) clear(b backend, spec process.Spec) error {
	if spec.Dir == "" {
		return nil
	}
	const rounds = 5 // one that ends may have started another
	for range rounds {
		left, err := process.RunningIn(spec.Dir, spec.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if len(left) == 0 {
			return b.forget(spec.Dir)
		}
		s.say("%-16s ending %d processes that an earlier one left", b.name, len(left))
		errs := make([]error, len(left))
		var wg sync.WaitGroup
		for i, id := range left {
			wg.Go(func() { errs[i] = id.Stop(b.stop, orphanGrace) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return fmt.Errorf("%s: processes of an earlier run in %s do not end", b.name, spec.Dir)
}

func (b backend) forget(dir string) error {
	if b.pidFile == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(dir, b.pidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	return nil
}

func (s *Set) find(name string) (backend, error) {
	i := slices.IndexFunc(s.backends, func(b backend) bool { return b.name == name })
	if i < 0 {
		return backend{}, fmt.Errorf("there is no backend %q: %v", name, s.Names())
	}
	return s.backends[i], nil
}
