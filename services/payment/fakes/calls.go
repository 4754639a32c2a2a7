// Package fakes has what the fake payment providers share: calls that go wrong, idempotency keys
// and webhooks. Only development and tests import it.
package fakes

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"urr.guru/pkg/faults"
)

const maxBody = 64 << 10

// Fault is what goes wrong with one call.
type Fault string

// The faults. A kept answer is returned again to each later call with the same idempotency key.
const (
	Lost    Fault = "lost"    // the call takes effect, but gets no answer
	Dropped Fault = "dropped" // the call has no effect, and gets no answer
	Late    Fault = "late"    // the call gets no answer, and takes effect at Arrive
	Broken  Fault = "broken"  // the call takes effect; an internal error is the answer, and is kept
	Failed  Fault = "failed"  // the call has no effect; an internal error is the answer, and is kept
	Limited Fault = "limited" // the call has no effect; "too many calls" is the answer
	Garbled Fault = "garbled" // the call has no effect; the answer is HTML, as of a proxy
)

// Faults are the shares, from 0 to 1, of the calls and webhooks that go wrong at random. Seed
// decides which ones, so that the same seed repeats a run.
type Faults struct {
	Seed    uint64  `json:"seed"`
	Lost    float64 `json:"lost"`
	Dropped float64 `json:"dropped"`
	Late    float64 `json:"late"`
	Broken  float64 `json:"broken"`
	Failed  float64 `json:"failed"`
	Limited float64 `json:"limited"`
	Garbled float64 `json:"garbled"`
	// LateFor is the delay before a late call takes effect and before a delayed webhook is sent.
	LateFor faults.Duration `json:"lateFor"`
	// Missing webhooks are never sent, Repeated ones are sent twice, Delayed ones after later ones.
	// Before a Forged one, a copy of it with a wrong signature is sent.
	Missing  float64 `json:"missing"`
	Repeated float64 `json:"repeated"`
	Delayed  float64 `json:"delayed"`
	Forged   float64 `json:"forged"`
}

func (f *Faults) shares() []faults.FaultShare[Fault] {
	return []faults.FaultShare[Fault]{
		{Size: f.Lost, Fault: Lost}, {Size: f.Dropped, Fault: Dropped}, {Size: f.Late, Fault: Late}, {Size: f.Broken, Fault: Broken},
		{Size: f.Failed, Fault: Failed}, {Size: f.Limited, Fault: Limited}, {Size: f.Garbled, Fault: Garbled},
	}
}

// errShares is returned for shares that cannot be probabilities.
var errShares = errors.New("the shares of the calls and those of the webhooks must each add up to at most 1")

func (f *Faults) validate() error {
	calls, err := faults.Sum(f.shares())
	hooks, hookErr := faults.Sum(f.webhookShares())
	if err := errors.Join(err, hookErr); err != nil {
		return err
	}
	if calls > 1 || hooks > 1 {
		return errShares
	}
	return nil
}

// Options are how a provider handles its calls.
type Options struct {
	Now func() time.Time
	// KeyLife is how long an answer is kept under its Idempotency-Key. With Compares, Mismatch answers
	// a kept key with other parameters. Running answers while the first call runs.
	KeyLife           time.Duration
	Compares          bool
	Mismatch, Running Reply
	// Internal is the provider's answer after an internal error, TooMany its answer to too many calls.
	Internal, TooMany Reply
}

// Calls handles the calls of a provider, and makes some of them go wrong.
type Calls struct {
	opts Options

	mu       sync.Mutex
	count    map[string]int
	next     map[string][]Fault
	faults   Faults
	gates    map[string]chan struct{}
	arriving []arrival
	keys     map[string]*kept
}

// arrival is a late call, which takes effect at the time at or after it.
type arrival struct {
	at  time.Time
	act func()
}

// NewCalls returns Calls of which none goes wrong yet.
func NewCalls(opts Options) *Calls {
	return &Calls{opts: opts, count: map[string]int{}, next: map[string][]Fault{}, gates: map[string]chan struct{}{}, keys: map[string]*kept{}}
}

// Handle serves a call; pattern is also its name. act may run late, and at the same time as others.
func (c *Calls) Handle(mux *http.ServeMux, pattern string, act func(r *http.Request, body []byte) Reply) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fault, gate := c.begin(pattern)
		run := func() Reply { return c.once(r, body, func() Reply { return act(r, body) }) }
		if gate != nil {
			<-gate
		}
		switch fault {
		case Lost:
			run()
			panic(http.ErrAbortHandler)
		case Late:
			c.postpone(func() { run() })
			panic(http.ErrAbortHandler)
		case Dropped:
			panic(http.ErrAbortHandler)
		case Limited:
			c.opts.TooMany.write(w)
		case Garbled:
			Reply{Status: http.StatusServiceUnavailable, Type: "text/html", Body: []byte("<html><h1>Service unavailable</h1></html>")}.write(w)
		case Failed:
			c.once(r, body, func() Reply { return c.opts.Internal }).write(w)
		case Broken:
			c.once(r, body, func() Reply { act(r, body); return c.opts.Internal }).write(w)
		default:
			run().write(w)
		}
	})
}

// begin counts a call. It returns the call's fault, and the gate that blocks it (nil: none).
func (c *Calls) begin(name string) (Fault, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[name]++
	if queue := c.next[name]; len(queue) > 0 {
		c.next[name] = queue[1:]
		return queue[0], c.gates[name]
	}
	return faults.Pick(c.faults.shares(), faults.Chance(c.faults.Seed, name, c.count[name])), c.gates[name]
}

// Inject makes the next calls of a name go wrong, one fault per call; an empty fault: no fault.
func (c *Calls) Inject(name string, list ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next[name] = list
}

// Count returns how often a call was made.
func (c *Calls) Count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[name]
}

// Block makes calls of a name wait before they take effect, until release is called.
func (c *Calls) Block(name string) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gate := make(chan struct{})
	c.gates[name] = gate
	return sync.OnceFunc(func() { close(gate) })
}

func (c *Calls) postpone(act func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arriving = append(c.arriving, arrival{at: c.opts.Now().Add(time.Duration(c.faults.LateFor)), act: act})
}

// Arrive makes the late calls that are due take effect.
func (c *Calls) Arrive() {
	c.mu.Lock()
	var due []func()
	c.arriving = slices.DeleteFunc(c.arriving, func(a arrival) bool {
		isDue := !c.opts.Now().Before(a.at)
		if isDue {
			due = append(due, a.act)
		}
		return isDue
	})
	c.mu.Unlock()
	for _, act := range due {
		act()
	}
}

// SetFaults replaces the shares of the calls and webhooks that go wrong.
func (c *Calls) SetFaults(f Faults) error {
	if err := f.validate(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
	return nil
}

func (c *Calls) currentFaults() Faults {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}
