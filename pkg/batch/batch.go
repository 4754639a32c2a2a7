// Package batch combines concurrent single calls into batches. A batch contains the calls that
// arrive within a short delay, or the calls that arrived while the previous batch ran (group
// commit). The number of waiting calls is limited: any further call is refused at once.
package batch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// Config sets the limits of a Coalescer. A field that is zero has the default given in its comment.
type Config struct {
	// Max is the largest number of items in a batch; default 100. A full batch starts at once.
	Max int
	// Delay is how long the first item of a batch waits for further items. It waits longer only while
	// the maximum number of batches (Inflight) runs. 0 means group commit.
	Delay time.Duration
	// Overlap, if longer than Delay, makes a batch wait until no other batch runs, and then for Delay,
	// but at most for Overlap after its first item arrived. So batches run at the same time only when
	// they are slow, and they grow with the load. 0 means that a batch does not wait for others.
	Overlap  time.Duration
	Inflight int           // maximum number of batches that run at once; default 1
	Queue    int           // maximum number of items that wait for a batch; default 10,000
	Timeout  time.Duration // the longest time that a batch may run, whatever its callers' deadlines; default 5 s
	// Keep makes batches also run the items whose callers gave up before the batch began.
	Keep bool
}

func (c Config) withDefaults() Config {
	c.Max, c.Inflight, c.Queue = positiveOr(c.Max, 100), positiveOr(c.Inflight, 1), positiveOr(c.Queue, 10_000)
	c.Timeout = positiveOr(c.Timeout, 5*time.Second)
	return c
}

func positiveOr[N int | time.Duration](value, fallback N) N {
	if value > 0 {
		return value
	}
	return fallback
}

// Result is the outcome of one item of a batch: its value or its error.
type Result[O any] struct {
	Value O
	Err   error
}

// Coalescer runs single calls in batches. It has no goroutine while it is idle.
type Coalescer[I, O any] struct {
	cfg   Config
	run   func(context.Context, []I) ([]Result[O], error)
	calls sync.Pool

	mu      sync.Mutex
	pending []*queuedCall[I, O]
	running int         // number of batches that are running
	timer   *time.Timer // starts the batch that is being collected; nil when no batch waits
	first   time.Time   // when the first item of the collected batch arrived; set only with Overlap
	closed  bool
	idle    chan struct{} // closed after Close, once no batch runs and no item waits
	onIdle  func()        // called whenever no batch runs and no item waits any more; may be nil
}

type queuedCall[I, O any] struct {
	ctx  context.Context //nolint:containedctx // lives as long as the call to Do
	in   I
	out  Result[O]
	done chan struct{}
}

// NewCoalescer makes a Coalescer that runs each batch with fn. fn returns one result per item, in
// the same order. If fn fails, or returns another number of results, every item of the batch fails.
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

// NewItems is like NewCoalescer, but fn returns a value or an error for each item.
func NewItems[I, O any](cfg Config, fn func(context.Context, []I) ([]Result[O], error)) *Coalescer[I, O] {
	c := &Coalescer[I, O]{cfg: cfg.withDefaults(), run: fn, idle: make(chan struct{})}
	c.calls.New = func() any { return &queuedCall[I, O]{done: make(chan struct{}, 1)} }
	return c
}

// Put passes one item to a batch without waiting for its result. When the queue is full, and after
// Close, it returns the same errors as Do.
func (c *Coalescer[I, O]) Put(in I) error {
	_, err := c.enqueue(&queuedCall[I, O]{ctx: context.Background(), in: in, done: make(chan struct{}, 1)})
	return err
}

// Do passes one item to a batch and waits for its result. It fails with errs.ErrOverloaded (and a
// retry time) when the queue is full, and with errs.ErrUnavailable after Close. When ctx ends
// first, it fails with the error of ctx. Before the batch begins, and without Config.Keep, this
// drops the item; otherwise it drops only the result. Other items of the batch are not affected.
func (c *Coalescer[I, O]) Do(ctx context.Context, in I) (O, error) {
	var zero O
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	cl := c.calls.Get().(*queuedCall[I, O]) //nolint:forcetypeassert // the pool's only type
	cl.ctx, cl.in = ctx, in
	if _, err := c.enqueue(cl); err != nil {
		return zero, err
	}
	select {
	case <-cl.done:
	case <-ctx.Done():
		return zero, ctx.Err() // the batch may still write to cl, so it is not reused
	}
	out := cl.out
	*cl = queuedCall[I, O]{done: cl.done}
	c.calls.Put(cl)
	return out.Value, out.Err
}

// DoAll appends the items to the queue together and in order, and waits for their results. An item
// fails in the same cases as in Do. When ctx ends first, all items fail with its error.
func (c *Coalescer[I, O]) DoAll(ctx context.Context, in []I) []Result[O] {
	out := make([]Result[O], len(in))
	calls, done := make([]*queuedCall[I, O], len(in)), make(chan struct{}, len(in))
	for i := range in {
		calls[i] = &queuedCall[I, O]{ctx: ctx, in: in[i], done: done}
	}
	queued, err := c.enqueue(calls...)
	for range queued {
		select {
		case <-done:
		case <-ctx.Done():
			for i := range out {
				out[i].Err = ctx.Err()
			}
			return out
		}
	}
	for i, cl := range calls {
		out[i] = cl.out
		if i >= queued {
			out[i].Err = err
		}
	}
	return out
}

// enqueue appends calls to the queue. If err is nil it accepts all of them, else only the first n.
func (c *Coalescer[I, O]) enqueue(calls ...*queuedCall[I, O]) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, errs.ErrUnavailable
	}
	waiting := len(c.pending)
	if n = min(len(calls), c.cfg.Queue-waiting); n < len(calls) {
		err = errs.ErrOverloaded.WithRetry(time.Second)
	}
	c.pending = append(c.pending, calls[:n]...)
	if c.cfg.Delay > 0 && waiting == 0 && n > 0 {
		c.scheduleBatchLocked()
	}
	for c.isBatchDueLocked() && c.running < c.cfg.Inflight { // further batches start when one ends
		c.startBatchLocked()
	}
	return n, err
}

func (c *Coalescer[I, O]) scheduleBatchLocked() {
	delay := c.cfg.Delay
	if c.cfg.Overlap > delay {
		c.first = time.Now()
		if c.running > 0 {
			delay = c.cfg.Overlap
		}
	}
	c.startBatchAfterLocked(delay)
}

// startBatchAfterLocked sets the timer that starts the batch being collected.
func (c *Coalescer[I, O]) startBatchAfterLocked(delay time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(delay, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != t { // the batch has begun, or a newer timer will start it
			return
		}
		c.timer = nil
		if c.running < c.cfg.Inflight {
			c.startBatchLocked()
		}
	})
	c.timer = t
}

// isBatchDueLocked reports whether the next batch may begin: it is full, its delay has passed, or
// the Coalescer is closed.
func (c *Coalescer[I, O]) isBatchDueLocked() bool {
	return len(c.pending) > 0 && (c.timer == nil || len(c.pending) >= c.cfg.Max || c.closed)
}

func (c *Coalescer[I, O]) startBatchLocked() {
	c.running++
	go c.runBatches(c.takeBatchLocked())
}

func (c *Coalescer[I, O]) runBatches(calls []*queuedCall[I, O]) {
	for calls != nil {
		c.runBatch(calls)
		calls = c.nextBatch()
	}
}

// nextBatch returns the next batch if it is due, else nil.
func (c *Coalescer[I, O]) nextBatch() []*queuedCall[I, O] {
	calls, idle := c.takeNextBatch()
	if idle && c.onIdle != nil {
		c.onIdle()
	}
	return calls
}

func (c *Coalescer[I, O]) takeNextBatch() (calls []*queuedCall[I, O], idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isBatchDueLocked() {
		return c.takeBatchLocked(), false
	}
	c.running--
	if c.running == 0 && c.timer != nil && c.cfg.Overlap > c.cfg.Delay {
		c.timer.Stop()
		c.startBatchAfterLocked(min(c.cfg.Delay, c.cfg.Overlap-time.Since(c.first)))
	}
	idle = c.running == 0 && len(c.pending) == 0
	if c.closed && idle {
		close(c.idle)
	}
	return nil, idle
}

// Waiting returns the number of items whose batch has not begun.
func (c *Coalescer[I, O]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

func (c *Coalescer[I, O]) hasNoWork() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running == 0 && len(c.pending) == 0
}

// takeBatchLocked removes the next batch and stops the timer: the remaining items are due.
func (c *Coalescer[I, O]) takeBatchLocked() []*queuedCall[I, O] {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	calls := slices.Clone(c.pending[:min(len(c.pending), c.cfg.Max)])
	c.pending = slices.Delete(c.pending, 0, len(calls))
	return calls
}

func (c *Coalescer[I, O]) runBatch(calls []*queuedCall[I, O]) {
	live := slices.DeleteFunc(calls, func(cl *queuedCall[I, O]) bool { return cl.ctx.Err() != nil && !c.cfg.Keep })
	if len(live) == 0 {
		return
	}
	in := make([]I, len(live))
	for i, cl := range live {
		in[i] = cl.in
	}
	// The batch has the first caller's trace and request id, but outlives that caller.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(live[0].ctx), c.cfg.Timeout)
	defer cancel()
	out, err := c.runRecovered(ctx, in)
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

// runRecovered runs a batch. A panic becomes the error of every item instead of ending the process.
func (c *Coalescer[I, O]) runRecovered(ctx context.Context, in []I) (out []Result[O], err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, errs.FromPanic(p)
		}
	}()
	return c.run(ctx, in)
}

// Close refuses new items and waits until all queued items have run, at most until ctx ends.
func (c *Coalescer[I, O]) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		switch {
		case c.running == 0 && len(c.pending) == 0:
			close(c.idle)
		case c.running < c.cfg.Inflight && len(c.pending) > 0:
			c.startBatchLocked()
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
