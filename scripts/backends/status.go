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
	Started time.Time // for a stopped backend: its last start
	// Died is true when it ended without a stop and has not been restarted.
	Died bool
	// Restarts counts the restarts by Revive; LastExit describes the end before the last restart.
	Restarts int
	LastExit string
	// ForTests is true when the platform itself does not use it.
	ForTests bool
}

// Signal sends a signal to a backend's process, for example SIGKILL, or SIGSTOP and SIGCONT to
// suspend and resume it.
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

// Running reports whether the process that Start created still exists.
func (s *Set) Running(name string) bool {
	r, found, err := s.load(name)
	return err == nil && found && r.Alive()
}

func (s *Set) Missing() []string {
	var missing []string
	for _, b := range s.backends {
		if !s.Running(b.name) {
			missing = append(missing, b.name)
		}
	}
	return missing
}

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
