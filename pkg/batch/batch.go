// Package batch turns concurrent single calls into few batched ones: what arrives within a short delay goes out as one RPC, or what
// arrived while the last batch was being written is the next batch (group commit). The queue in front is bounded, so that overload is
// refused at once instead of being waited for.
package batch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// Config bounds a Coalescer. Zero values take the defaults named.
type Config struct {
	// Max is the most items in a batch; default 100. A full batch does not wait for Delay.
	Max int
	// Delay is how long the first item of a batch waits for others, and longer only while Inflight batches run. 0 = group commit: a
	// batch takes what has arrived.
	Delay time.Duration
	// Overlap, if longer than Delay, is how long the first item of a batch waits for batches in flight to end. A batch that begins
	// after the last one has ended then collects for Delay from that moment, and one beside others only begins when they are slow. So
	// batches grow with the load. 0: batches overlap freely.
	Overlap time.Duration
	// Inflight is the most batches running at once; default 1.
	Inflight int
	// Queue is the most items waiting for a batch; default 10,000. Above it Do answers errs.ErrOverloaded.
	Queue int
	// Timeout bounds one run of fn; default 5 s. It is independent of any caller's deadline.
	Timeout time.Duration
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.Max, 100)
	def(&c.Inflight, 1)
	def(&c.Queue, 10_000)
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	return c
}

// Result is the outcome of one item of a batch: a value or an error, that item's alone.
type Result[O any] struct {
	Value O
	Err   error
}

// Coalescer runs single calls in batches. It keeps no goroutine while idle; Close waits for those that run.
type Coalescer[I, O any] struct {
	cfg   Config
	run   func(context.Context, []I) ([]Result[O], error)
	calls sync.Pool

	mu      sync.Mutex
	pending []*call[I, O]
	running int         // batches in flight
	timer   *time.Timer // of the batch that is being collected; nil when none waits for Delay or Overlap
	first   time.Time   // when the first item of that batch arrived; only with Overlap
	closed  bool
	idle    chan struct{} // closed when a closed coalescer has drained
	onIdle  func()        // called when the last batch under way has ended and nothing waits; nil for none
}

type call[I, O any] struct {
	ctx  context.Context //nolint:containedctx // lives as long as the call to Do
	in   I
	out  Result[O]
	done chan struct{}
}

// NewCoalescer makes a Coalescer whose fn answers a batch by position: as many results as items, in their order. An error of fn, or a
// wrong number of results, is every item's error. A fn whose items fail one by one belongs to NewItems.
func NewCoalescer[I, O any](cfg Config, fn func(context.Context, []I) ([]O, error)) *Coalescer[I, O] {
	return NewItems(cfg, func(ctx context.Context, in []I) ([]Result[O], error) {
		values, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		out := make([]Result[O], len(values))
		for i, v := range values {
			out[i].Value = v
		}
		return out, nil
	})
}

// NewItems is NewCoalescer for a fn that can fail an item and serve the others.
func NewItems[I, O any](cfg Config, fn func(context.Context, []I) ([]Result[O], error)) *Coalescer[I, O] {
	c := &Coalescer[I, O]{cfg: cfg.withDefaults(), run: fn, idle: make(chan struct{})}
	c.calls.New = func() any { return &call[I, O]{done: make(chan struct{}, 1)} }
	return c
}

// Do hands in one item and waits for its result. It fails with errs.ErrOverloaded (and a retry time) when the queue is full, with
// errs.ErrUnavailable after Close, and with the context's error when ctx ends first: the item is then dropped if its batch has not
// begun, else its result is. A caller that gives up never disturbs the others of its batch.
func (c *Coalescer[I, O]) Do(ctx context.Context, in I) (O, error) {
	var zero O
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	cl := c.calls.Get().(*call[I, O]) //nolint:forcetypeassert // the pool's only type
	cl.ctx, cl.in = ctx, in
	if err := c.enqueue(cl); err != nil {
		return zero, err
	}
	select {
	case <-cl.done:
	case <-ctx.Done():
		return zero, ctx.Err() // cl may still be written to, so it does not go back to the pool
	}
	out := cl.out
	*cl = call[I, O]{done: cl.done}
	c.calls.Put(cl)
	return out.Value, out.Err
}

func (c *Coalescer[I, O]) enqueue(cl *call[I, O]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errs.ErrUnavailable
	}
	if len(c.pending) >= c.cfg.Queue {
		return errs.ErrOverloaded.WithRetry(time.Second)
	}
	c.pending = append(c.pending, cl)
	if c.cfg.Delay > 0 && len(c.pending) == 1 {
		c.collectLocked()
	}
	if c.dueLocked() && c.running < c.cfg.Inflight { // else the batch that ends first takes it along
		c.startLocked()
	}
	return nil
}

func (c *Coalescer[I, O]) collectLocked() {
	delay := c.cfg.Delay
	if c.cfg.Overlap > delay {
		c.first = time.Now()
		if c.running > 0 {
			delay = c.cfg.Overlap
		}
	}
	c.waitLocked(delay)
}

// waitLocked lets the batch that is being collected begin after a delay.
func (c *Coalescer[I, O]) waitLocked(delay time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(delay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != t { // it has begun, or waits anew
			return
		}
		c.timer = nil
		if c.running < c.cfg.Inflight {
			c.startLocked()
		}
	})
	c.timer = t
}

// dueLocked reports whether what waits is a batch: it is full, its delay has passed, or no more
// follow.
func (c *Coalescer[I, O]) dueLocked() bool {
	return len(c.pending) > 0 && (c.timer == nil || len(c.pending) >= c.cfg.Max || c.closed)
}

func (c *Coalescer[I, O]) startLocked() {
	c.running++
	go c.work(c.takeLocked())
}

func (c *Coalescer[I, O]) work(calls []*call[I, O]) {
	for calls != nil {
		c.runBatch(calls)
		calls = c.next()
	}
}

// next takes what arrived while a batch ran, unless its delay has not passed.
func (c *Coalescer[I, O]) next() []*call[I, O] {
	calls, idle := c.nextOrIdle()
	if idle && c.onIdle != nil {
		c.onIdle()
	}
	return calls
}

func (c *Coalescer[I, O]) nextOrIdle() (calls []*call[I, O], idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dueLocked() {
		return c.takeLocked(), false
	}
	c.running--
	if c.running == 0 && c.timer != nil && c.cfg.Overlap > c.cfg.Delay {
		c.timer.Stop()
		c.waitLocked(min(c.cfg.Delay, c.cfg.Overlap-time.Since(c.first)))
	}
	idle = c.running == 0 && len(c.pending) == 0
	if c.closed && idle {
		close(c.idle)
	}
	return nil, idle
}

func (c *Coalescer[I, O]) unused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running == 0 && len(c.pending) == 0
}

// takeLocked takes the next batch. What is left is due, too.
func (c *Coalescer[I, O]) takeLocked() []*call[I, O] {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	n := min(len(c.pending), c.cfg.Max)
	calls := make([]*call[I, O], n)
	copy(calls, c.pending)
	rest := copy(c.pending, c.pending[n:])
	clear(c.pending[rest:])
	c.pending = c.pending[:rest]
	return calls
}

func (c *Coalescer[I, O]) runBatch(calls []*call[I, O]) {
	live := calls[:0]
	for _, cl := range calls {
		if cl.ctx.Err() == nil { // a call cancelled before its batch starts is dropped
			live = append(live, cl)
		}
	}
	if len(live) == 0 {
		return
	}
	in := make([]I, len(live))
	for i, cl := range live {
		in[i] = cl.in
	}
	// Values (trace, request id) are the first caller's; its cancellation is not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(live[0].ctx), c.cfg.Timeout)
	defer cancel()
	out, err := c.guarded(ctx, in)
	if err == nil && len(out) != len(in) {
		err = errs.ErrInternal.Wrap(fmt.Errorf("batch: %d results for %d items", len(out), len(in)))
	}
	for i, cl := range live {
		if err != nil {
			cl.out.Err = err
		} else {
			cl.out = out[i]
		}
		cl.done <- struct{}{}
	}
}

// guarded turns a panic of fn into every item's error: it would otherwise end the process for all of them.
func (c *Coalescer[I, O]) guarded(ctx context.Context, in []I) (out []Result[O], err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, errs.FromPanic(p)
		}
	}()
	return c.run(ctx, in)
}

// Close refuses new items and waits until those in the queue are served, or ctx ends.
func (c *Coalescer[I, O]) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		switch {
		case c.running == 0 && len(c.pending) == 0:
			close(c.idle)
		case c.running < c.cfg.Inflight && len(c.pending) > 0:
			c.startLocked()
		}
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
