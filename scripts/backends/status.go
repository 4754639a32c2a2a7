package backends

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// State is a row of the status table.
type State struct {
	Name    string
	Port    int
	PID     int // 0: not running
	Ready   bool
	Started time.Time // also of the last start of one that does not run
	// Died tells that it ended though nobody stopped it, and runs not yet again.
	Died bool
	// Restarts counts how often Revive has started it again, and LastExit says how it ended before the last time.
	Restarts int
	LastExit string
	// ForTests tells that the platform itself has no use for it.
	ForTests bool
}

// Signal sends a signal to a backend's process: SIGKILL loses it, SIGSTOP makes it hang, SIGCONT
// ends that.
func (s *Set) Signal(name string, sig syscall.Signal) error {
	r, found, err := s.load(name)
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

// Running tells whether the process that Start began is still there.
func (s *Set) Running(name string) bool {
	r, found, err := s.load(name)
	return err == nil && found && r.Alive()
}

// Missing lists the backends of the set that do not run.
func (s *Set) Missing() []string {
	var missing []string
	for _, b := range s.backends {
		if !s.Running(b.name) {
			missing = append(missing, b.name)
		}
	}
	return missing
}

// Status asks every backend.
func (s *Set) Status(ctx context.Context) []State {
	states := make([]State, len(s.backends))
	var wg sync.WaitGroup
	for i, b := range s.backends {
		wg.Go(func() {
			states[i] = State{Name: b.name, Port: b.ports[0], ForTests: b.forTests}
			r, found, err := s.load(b.name)
			if err != nil || !found {
				return
			}
			states[i].Started, states[i].Restarts, states[i].LastExit = r.Started, r.Restarts, r.LastExit
			if !r.Alive() {
				states[i].Died = r.wanted(b)
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
