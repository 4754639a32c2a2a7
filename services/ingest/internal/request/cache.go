package request

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

const (
	// fresh is how old a cached value may be; while it cannot be read again, stale is the bound.
	fresh = time.Second
	stale = time.Minute
	// maxCached bounds the cache: ids that do not exist are cached too.
	maxCached = 10_000
)

// Cache keeps values for a second. Concurrent calls share a read.
type Cache[V any] struct {
	now    func() time.Time
	load   func(ctx context.Context, id string) (V, error)
	recent *otter.Cache[string, cached[V]] // up to fresh
	last   *otter.Cache[string, cached[V]] // up to stale, for when the value cannot be read
}

type cached[V any] struct {
	value V
	err   error     // a refusal that is as cacheable as a value
	at    time.Time // the read's begin, from which the age counts
}

// NewCache makes a cache over load.
func NewCache[V any](now func() time.Time, load func(context.Context, string) (V, error)) *Cache[V] {
	keep := func(age time.Duration) *otter.Cache[string, cached[V]] {
		return otter.Must(&otter.Options[string, cached[V]]{
			MaximumSize: maxCached, Clock: clock(now),
			ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, cached[V]]) time.Duration {
				return max(1, age-now().Sub(e.Value.at))
			}),
		})
	}
	return &Cache[V]{now: now, load: load, recent: keep(fresh), last: keep(stale)}
}

// Get returns a value that is at most a second old, or up to a minute while it cannot be read.
func (c *Cache[V]) Get(ctx context.Context, id string) (V, error) {
	e, err := c.recent.Get(ctx, id, otter.LoaderFunc[string, cached[V]](c.read))
	if err != nil {
		var ok bool
		if e, ok = c.last.GetIfPresent(id); !ok {
			return e.value, err
		}
	}
	return e.value, e.err
}

// read fails for what is not to be cached.
func (c *Cache[V]) read(ctx context.Context, id string) (cached[V], error) {
	e := cached[V]{at: c.now()}
	e.value, e.err = c.load(ctx, id)
	var known *errs.Error
	if e.err != nil && !(errors.As(e.err, &known) && known.Kind == errs.NotFound) {
		return e, e.err
	}
	c.last.Set(id, e)
	return e, nil
}

// Forget drops a value, after it was changed.
func (c *Cache[V]) Forget(id string) {
	c.recent.Invalidate(id)
	c.last.Invalidate(id)
}

// clock is the clock of a cache. Without ticks, what has expired goes when another entry needs its place.
type clock func() time.Time

// NowNano returns the present time.
func (c clock) NowNano() int64 { return c().UnixNano() }

// Tick never ticks.
func (clock) Tick(time.Duration) <-chan time.Time { return nil }
