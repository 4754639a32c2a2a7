package request

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

const (
	freshFor  = time.Second // up to this age most values are returned from the cache
	staleFor  = time.Minute // up to this age a value is returned if reading a newer one fails
	maxCached = 10_000      // the maximum number of cached ids, including ids that do not exist
)

// Cache keeps each value that load has read for a short time. Concurrent calls share a read.
type Cache[V any] struct {
	now   func() time.Time
	load  func(ctx context.Context, id string) (V, error)
	fresh *otter.Cache[string, cached[V]] // values no older than the parameter fresh of NewCache
	stale *otter.Cache[string, cached[V]] // values no older than staleFor
}

// cached is a value that was read, or the error that says that it does not exist.
type cached[V any] struct {
	value V
	err   error     // nil, or of the kind errs.NotFound
	at    time.Time // when the read began; the age is counted from this time
}

// NewCache returns a Cache that returns a value read by load for the duration fresh.
func NewCache[V any](now func() time.Time, fresh time.Duration, load func(context.Context, string) (V, error)) *Cache[V] {
	keep := func(age time.Duration) *otter.Cache[string, cached[V]] {
		return otter.Must(&otter.Options[string, cached[V]]{
			MaximumSize: maxCached, Clock: clock(now),
			ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, cached[V]]) time.Duration {
				return max(1, age-now().Sub(e.Value.at))
			}),
		})
	}
	return &Cache[V]{now: now, load: load, fresh: keep(fresh), stale: keep(staleFor)}
}

// Get returns a fresh value. If it cannot be read, Get returns one up to a minute old.
func (c *Cache[V]) Get(ctx context.Context, id string) (V, error) {
	e, err := c.fresh.Get(ctx, id, otter.LoaderFunc[string, cached[V]](c.read))
	old, known := c.stale.GetIfPresent(id)
	switch {
	case err == nil && (!known || old.at.Before(e.at)):
		c.stale.Set(id, e)
	case err != nil && !known:
		return e.value, err
	case err != nil:
		e = old
	}
	return e.value, e.err
}

// read loads a value. A NotFound error is cached like a value; any other error makes read fail.
func (c *Cache[V]) read(ctx context.Context, id string) (cached[V], error) {
	e := cached[V]{at: c.now()}
	e.value, e.err = c.load(ctx, id)
	var known *errs.Error
	if e.err != nil && !(errors.As(e.err, &known) && known.Kind == errs.NotFound) {
		return e, e.err
	}
	return e, nil
}

// Forget removes a value from the cache. It is called when the value was changed.
func (c *Cache[V]) Forget(id string) {
	c.fresh.Invalidate(id)
	c.stale.Invalidate(id)
}

// clock is the clock of a cache. It never ticks, so an expired value is removed only when the cache
// needs room for another value.
type clock func() time.Time

func (c clock) NowNano() int64 { return c().UnixNano() }

func (clock) Tick(time.Duration) <-chan time.Time { return nil }
