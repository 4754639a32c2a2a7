// Package fakes has what the fake payment providers share: calls that go wrong, idempotency keys and
// webhooks. Only development and tests import it.
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

// The faults. A kept answer is repeated under the call's idempotency key.
const (
	Lost    Fault = "lost"    // the call acts, and is not answered
	Dropped Fault = "dropped" // the call does not act, and is not answered
	Late    Fault = "late"    // the call is not answered, and acts at Arrive
	Broken  Fault = "broken"  // the call acts, and gets an internal error, which is kept
	Failed  Fault = "failed"  // the call does not act, and gets an internal error, which is kept
	Limited Fault = "limited" // the call does not act, and is answered "too many calls"
	Garbled Fault = "garbled" // the call does not act, and a proxy answers in HTML
)

// Faults are the shares, from 0 to 1, of the calls and webhooks that go wrong at random. The seed
// decides which.
type Faults struct {
	Seed    uint64  `json:"seed"`
	Lost    float64 `json:"lost"`
	Dropped float64 `json:"dropped"`
	Late    float64 `json:"late"`
	Broken  float64 `json:"broken"`
	Failed  float64 `json:"failed"`
	Limited float64 `json:"limited"`
	Garbled float64 `json:"garbled"`
	// LateFor is the delay after which a late call acts and a delayed webhook is sent.
	LateFor faults.Duration `json:"lateFor"`
	// Missing webhooks are never sent, Repeated ones are sent twice, Delayed ones after later ones.
	// Beside a Forged one a copy with a wrong signature is sent.
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

// errShares is returned for shares that are no probabilities.
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

// Options are the rules of a provider's calls.
type Options struct {
	Now func() time.Time
	// KeyLife is how long the answer to a call is kept under its Idempotency-Key. With Compares, a
	// kept key with other parameters gets Mismatch. A call while the first runs gets Running.
	KeyLife           time.Duration
	Compares          bool
	Mismatch, Running Reply
	// Internal is the provider's answer of an internal error, TooMany its answer to too many calls.
	Internal, TooMany Reply
}

// Calls runs the calls of a provider, of which some go wrong.
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

// arrival is a late call.
type arrival struct {
	at  time.Time
	act func()
}

// NewCalls returns the calls of a provider, of which none goes wrong yet.
func NewCalls(opts Options) *Calls {
	return &Calls{opts: opts, count: map[string]int{}, next: map[string][]Fault{}, gates: map[string]chan struct{}{}, keys: map[string]*kept{}}
}

// Handle serves a call, whose pattern is also its name. act may be called late, and concurrently.
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
			c.putOff(func() { run() })
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

// begin counts a call, and returns its fault and the gate that it waits for; nil: none.
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

// Inject makes the next calls of a name go wrong, one fault each; an empty fault changes nothing.
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

// Block makes calls of a name wait before they act, until release.
func (c *Calls) Block(name string) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gate := make(chan struct{})
	c.gates[name] = gate
	return sync.OnceFunc(func() { close(gate) })
}

func (c *Calls) putOff(act func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arriving = append(c.arriving, arrival{at: c.opts.Now().Add(time.Duration(c.faults.LateFor)), act: act})
}

// Arrive makes the late calls act whose time has come.
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
