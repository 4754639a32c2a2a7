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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

const (
	checkEvery   = time.Second
	checkTimeout = time.Second
	// checkEveryAtStart is the interval until all conditions have held once: short for a fast start.
	checkEveryAtStart = 50 * time.Millisecond
)

var conditionHolds = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Name: "urr_ready", Help: "1 while a condition of the process holds (a store answers, a first read is done), 0 while it does not.",
}, []string{"condition"})

// health is the state of the process, as probes and callers see it.
type health struct {
	ready   bool // from the first moment when all conditions held until the process stops
	serving bool // while all conditions hold
}

// readiness checks the conditions in the background. Probes get the last results, so they cost
// nothing and cannot pile up.
type readiness struct {
	log     *slog.Logger
	checks  []*condition
	every   time.Duration // interval of the checks
	timeout time.Duration // limit of one check

	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	health health
	state  map[string]string
}

// condition is one condition for readiness. At most one goroutine runs fn at a time; fn may run on
// after its timeout if it ignores the context.
type condition struct {
	name string
	fn   func(context.Context) error
	busy chan struct{} // holds a token while fn runs
}

func (c *condition) checkWithin(ctx context.Context) error {
	select {
	case c.busy <- struct{}{}:
	default:
		return errors.New("has not ended since it was last asked")
	}
	result := make(chan error, 1)
	go func() {
		defer func() { <-c.busy }()
		result <- c.runRecovered(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runRecovered turns a panic into an error without its stack, which probes must not see.
func (c *condition) runRecovered(ctx context.Context) (err error) {
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

func (r *readiness) addCheck(name string, fn func(context.Context) error) {
	r.checks = append(r.checks, &condition{name: name, fn: fn, busy: make(chan struct{}, 1)})
	conditionHolds.WithLabelValues(name).Set(0)
}

// start checks the conditions in the background until stop. It calls changed at every change.
func (r *readiness) start(base context.Context, changed func(health)) {
	ctx, cancel := context.WithCancel(base)
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		defer changed(health{})
		var now health
		every := checkEveryAtStart
		for {
			state, ok := r.runChecks(ctx)
			if ctx.Err() != nil {
				return
			}
			exportConditions(state)
			now = health{ready: now.ready || ok, serving: ok}
			if r.setState(state, now) {
				changed(now)
			}
			if now.ready {
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

// stateOK is the text in /readyz for a condition that holds.
const stateOK = "ok"

func exportConditions(state map[string]string) {
	for condition, s := range state {
		v := 0.0
		if s == stateOK {
			v = 1
		}
		conditionHolds.WithLabelValues(condition).Set(v)
	}
}

// stop ends the checks, and makes the process not ready for good.
func (r *readiness) stop() {
	r.cancel()
	<-r.done
	r.setState(map[string]string{"process": "stopping"}, health{})
}

func (r *readiness) runChecks(ctx context.Context) (map[string]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	results := make([]error, len(r.checks))
	var wg sync.WaitGroup
	for i, condition := range r.checks {
		wg.Go(func() { results[i] = condition.checkWithin(ctx) })
	}
	wg.Wait()
	state, ok := make(map[string]string, len(results)), true
	for i, err := range results {
		state[r.checks[i].name] = stateOK
		if err != nil {
			state[r.checks[i].name], ok = err.Error(), false
		}
	}
	return state, ok
}

func (r *readiness) setState(state map[string]string, h health) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := h != r.health
	if changed {
		r.log.Info("readiness changed", "ready", h.ready, "serving", h.serving, "checks", state)
	}
	r.health, r.state = h, state
	return changed
}

// ServeHTTP answers /readyz: 200 if the process is ready, else 503, with the state of each
// condition as JSON.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	body := struct {
		Ready   bool              `json:"ready"`
		Serving bool              `json:"serving"`
		Checks  map[string]string `json:"checks"`
	}{r.health.ready, r.health.serving, maps.Clone(r.state)}
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !body.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body)
}
