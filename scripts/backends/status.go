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
	"syscall"
	"time"

	"urr.guru/scripts/process"
)

// BackendState is what the table of the command status shows of one backend.
type BackendState struct {
	Name    string
	Port    int
	PID     int // 0: not running
	Ready   bool
	Started time.Time // the last start, even if the backend is stopped
	// Died is true when the process ended without a stop and has not been restarted.
	Died bool
	// Restarts counts restarts by Revive. LastExit is how the process ended before the latest of them.
	Restarts int
	LastExit string
	// DataBytes is what the backend's data takes on the disk.
	DataBytes int64
	// ForTests is true when only tests use the backend.
	ForTests bool
}

// Signal sends a signal to a backend's process: SIGKILL, SIGSTOP (suspends it) or SIGCONT (resumes
// it).
func (s *Set) Signal(name string, sig syscall.Signal) error {
	r, found, err := s.loadRecord(name)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%s does not run", name)
	}
	if err := r.Signal(sig); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Running reports whether the process that Start created for a backend still exists.
func (s *Set) Running(name string) bool {
	r, found, err := s.loadRecord(name)
	return err == nil && found && r.Alive()
}

func (s *Set) NotRunning() []string {
	var missing []string
	for _, b := range s.backends {
		if !s.Running(b.name) {
			missing = append(missing, b.name)
		}
	}
	return missing
}

func (s *Set) Status(ctx context.Context) []BackendState {
	states := make([]BackendState, len(s.backends))
	var wg sync.WaitGroup
	for i, b := range s.backends {
		wg.Go(func() {
			states[i] = BackendState{Name: b.name, Port: b.ports[0], ForTests: b.forTests}
			if spec, err := b.spec(); err == nil && spec.Dir != "" { // an error means that it is not installed
				states[i].DataBytes = diskUse(spec.Dir)
			}
			r, found, err := s.loadRecord(b.name)
			if err != nil || !found {
				return
			}
			states[i].Started, states[i].Restarts, states[i].LastExit = r.Started, r.Restarts, r.LastExit
			if !r.Alive() {
				states[i].Died = r.shouldRun(b)
				return
			}
			ctx, cancel := context.WithTimeout(ctx, readyTry)
			defer cancel()
			states[i].PID = r.PID
			states[i].Ready = b.ready(ctx) == nil
		})
	}
	wg.Wait()
	return states
}

// reviveLimit is the time limit of a server's recovery, which takes minutes on a busy machine.
const reviveLimit = 5 * time.Minute

// orphanGrace is the time in which the children of a dead server may end by themselves.
const orphanGrace = 5 * time.Second

func (s *Set) Names() []string {
	names := make([]string, len(s.backends))
	for i, b := range s.backends {
		names[i] = b.name
	}
	return names
}

// Died reports whether a backend has ended without being stopped. It also returns its last start.
func (s *Set) Died(name string) (lastStart time.Time, died bool) {
	b, err := s.findBackend(name)
	if err != nil {
		return time.Time{}, false
	}
	r, found, err := s.loadRecord(name)
	return r.Started, err == nil && found && r.shouldRun(b) && !r.Alive()
}

// shouldRun reports whether the backend should be running, on the ports that it has in this set.
func (r runRecord) shouldRun(b backend) bool { return !r.Stopping && slices.Equal(r.Ports, b.ports) }

// Revive restarts a backend that died, with its data, and returns when it is ready. revived is
// false if the backend had not died, or if it was stopped meanwhile. Other processes may start and
// stop backends at the same time.
func (s *Set) Revive(ctx context.Context, name string) (revived bool, err error) {
	b, err := s.findBackend(name)
	if err != nil {
		return false, err
	}
	p, spec, err := s.relaunch(ctx, b)
	if err != nil || p == nil {
		return false, err
	}
	// relaunch has released the lock, so that a stop need not wait until the backend is ready.
	limited, cancel := context.WithTimeout(ctx, reviveLimit)
	defer cancel()
	err = p.WaitReady(limited, spec, b.ready)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err() // the process runs on and may still become ready
	default:
		return false, s.stopUnready(ctx, b, p, err)
	}
}

// relaunch starts the process of a dead backend again. It returns no process if the backend runs or
// should not run.
func (s *Set) relaunch(ctx context.Context, b backend) (*process.Process, process.Spec, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, process.Spec{}, err
	}
	defer unlock()
	r, found, err := s.loadRecord(b.name)
	if err != nil || !found || !r.shouldRun(b) || r.Alive() {
		return nil, process.Spec{}, err
	}
	r.Restarts++
	r.LastExit = explainExit(s.describeExit(b.name, r.Identity), s.layout.LogFile(b.name))
	s.say("%-16s ended, starting it again: %s", b.name, r.LastExit)
	p, spec, err := s.launch(b, r)
	if err != nil {
		r.Started = time.Now()
		r.LastExit, _, _ = strings.Cut(err.Error(), "\n")
		return nil, spec, errors.Join(err, process.Save(s.layout.RunFile(b.name), r))
	}
	return p, spec, nil
}

// describeExit returns how a process ended, for BackendState.LastExit. Only the parent of a process
// learns its exit status; in other processes, describeExit returns "ended".
func (s *Set) describeExit(name string, id process.Identity) string {
	s.mu.Lock()
	p := s.started[name]
	s.mu.Unlock()
	if p == nil || p.Identity != id {
		return "ended"
	}
	<-p.Done()
	return p.Exit()
}

// stopUnready kills a process that did not become ready, so that the next attempt starts a new one.
// It returns cause, or nil if the backend was stopped meanwhile.
func (s *Set) stopUnready(ctx context.Context, b backend, p *process.Process, cause error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	defer unlock()
	r, found, err := s.loadRecord(b.name)
	if err != nil || !found || r.Stopping || r.Identity != p.Identity {
		return err
	}
	return errors.Join(cause, p.Stop(b.stop, stopLimit))
}

// killLeftovers kills the processes that a killed server left in its data folder: PostgreSQL's
// children, which hold its shared memory, or a server whose starter died before it wrote the run
// file. It then removes the pid file, since another process may now have the id in it.
func (s *Set) killLeftovers(b backend, spec process.Spec) error {
	if spec.Dir == "" {
		return nil
	}
	const rounds = 5 // a terminating process may have started another
	for range rounds {
		leftovers, err := process.RunningIn(spec.Dir, spec.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if len(leftovers) == 0 {
			return b.removePIDFile(spec.Dir)
		}
		s.say("%-16s ending %d processes that an earlier one left", b.name, len(leftovers))
		err = forEach(leftovers, func(id process.Identity) error { return id.Stop(b.stop, orphanGrace) })
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return fmt.Errorf("%s: processes of an earlier run in %s do not end", b.name, spec.Dir)
}

func (b backend) removePIDFile(dir string) error {
	if b.pidFile == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(dir, b.pidFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	return nil
}

func (s *Set) findBackend(name string) (backend, error) {
	i := slices.IndexFunc(s.backends, func(b backend) bool { return b.name == name })
	if i < 0 {
		return backend{}, fmt.Errorf("there is no backend %q: %v", name, s.Names())
	}
	return s.backends[i], nil
}
