package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"
)

const (
	checkEvery   = time.Second
	checkTimeout = time.Second
	// Until the first success checks run more often, so that a start does not wait for a tick.
	checkEveryAtStart = 50 * time.Millisecond
)

// readiness runs the checks in the background. Probes read the last result, so they cost nothing
// and cannot pile up.
type readiness struct {
	log    *slog.Logger
	checks []*check
	// every is the interval of the checks, timeout the time of one check.
	every, timeout time.Duration

	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	ready bool
	state map[string]string
}

// check is one condition. At most one goroutine runs fn; it may outlive its timeout when fn ignores
// the context.
type check struct {
	name string
	fn   func(context.Context) error
	busy chan struct{} // holds a token while fn runs
}

func (c *check) ask(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
	default:
		return errors.New("has not ended since it was last asked")
	}
	result := make(chan error, 1)
	go func() {
		defer func() { <-c.busy }()
		result <- c.run(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run returns a panic as an error without its stack, which must not reach a probe's response.
func (c *check) run(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.fn(ctx)
}

func newReadiness(log *slog.Logger) *readiness {
	return &readiness{log: log, every: checkEvery, timeout: checkTimeout, state: map[string]string{"process": "starting"}}
}

func (r *readiness) add(name string, fn func(context.Context) error) {
	r.checks = append(r.checks, &check{name: name, fn: fn, busy: make(chan struct{}, 1)})
}

// start runs the checks until stop; changed is called with every change.
func (r *readiness) start(base context.Context, changed func(ready bool)) {
	ctx, cancel := context.WithCancel(base)
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		defer changed(false)
		every := checkEveryAtStart
		for {
			state, ready := r.ask(ctx)
			if ctx.Err() != nil {
				return
			}
			if r.set(state, ready) {
				changed(ready)
			}
			if ready {
				every = r.every
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
		}
	}()
}

// stop makes the process permanently not ready.
func (r *readiness) stop() {
	r.cancel()
	<-r.done
	r.set(map[string]string{"process": "stopping"}, false)
}

func (r *readiness) ask(ctx context.Context) (map[string]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	results := make([]error, len(r.checks))
	var wg sync.WaitGroup
	for i, check := range r.checks {
		wg.Go(func() { results[i] = check.ask(ctx) })
	}
	wg.Wait()
	state, ready := make(map[string]string, len(results)), true
	for i, err := range results {
		state[r.checks[i].name] = "ok"
		if err != nil {
			state[r.checks[i].name], ready = err.Error(), false
		}
	}
	return state, ready
}

// set stores the state and reports whether readiness changed.
func (r *readiness) set(state map[string]string, ready bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := ready != r.ready
	if changed {
		r.log.Info("readiness changed", "ready", ready, "checks", state)
	}
	r.ready, r.state = ready, state
	return changed
}

// ServeHTTP is /readyz: 200 or 503, with the checks as JSON.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	body := struct {
		Ready  bool              `json:"ready"`
		Checks map[string]string `json:"checks"`
	}{r.ready, maps.Clone(r.state)}
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !body.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body)
}
