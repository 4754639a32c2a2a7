// Package readcache keeps what was read from a store for a short time, so that any number of calls
// costs one read per key and time.
package readcache

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

// staleFor is up to which age a value is returned if reading a newer one fails.
const staleFor = time.Minute

// Cache keeps each value that load has read for a short time. Concurrent calls share a read; if the
// caller that began it gives up, another one reads.
type Cache[K comparable, V any] struct {
	now   func() time.Time
	load  func(ctx context.Context, key K) (V, error)
	fresh *otter.Cache[K, cached[V]] // values no older than the parameter fresh of New
	stale *otter.Cache[K, cached[V]] // values no older than staleFor
}

// cached is a value that was read, or the error that says that it does not exist.
type cached[V any] struct {
	value V
	err   error     // nil, or of the kind errs.NotFound
	at    time.Time // when the read began; the age is counted from this time
}

// New returns a Cache of at most size keys (including keys that do not exist) that returns a value read
// by load for the duration fresh.
func New[K comparable, V any](now func() time.Time, fresh time.Duration, size int, load func(context.Context, K) (V, error)) *Cache[K, V] {
	keep := func(age time.Duration) *otter.Cache[K, cached[V]] {
		return otter.Must(&otter.Options[K, cached[V]]{
			MaximumSize: size, Clock: Clock(now),
			ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[K, cached[V]]) time.Duration {
				return max(1, age-now().Sub(e.Value.at))
			}),
		})
	}
	return &Cache[K, V]{now: now, load: load, fresh: keep(fresh), stale: keep(staleFor)}
}

// Get returns a fresh value. If it cannot be read, Get returns one up to a minute old.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	e, err := c.fresh.Get(ctx, key, otter.LoaderFunc[K, cached[V]](c.read))
	old, known := c.stale.GetIfPresent(key)
	switch {
	case err == nil && (!known || old.at.Before(e.at)):
		c.stale.Set(key, e)
	case err != nil && !known:
		return e.value, err
	case err != nil:
		e = old
	}
	return e.value, e.err
}

// Fresh returns what Get would return without reading; ok is false if Get would read.
func (c *Cache[K, V]) Fresh(key K) (value V, ok bool) {
	e, ok := c.fresh.GetIfPresent(key)
	return e.value, ok
}

// read loads a value. A NotFound error is cached like a value; any other error makes read fail.
func (c *Cache[K, V]) read(ctx context.Context, key K) (cached[V], error) {
	e := cached[V]{at: c.now()}
	e.value, e.err = c.load(ctx, key)
	var known *errs.Error
	if e.err != nil && !(errors.As(e.err, &known) && known.Kind == errs.NotFound) {
		return e, e.err
	}
	return e, nil
}

// Forget removes a value from the cache. It is called when the value was changed.
func (c *Cache[K, V]) Forget(key K) {
	c.fresh.Invalidate(key)
	c.stale.Invalidate(key)
}

// Clear removes all values from the cache.
func (c *Cache[K, V]) Clear() {
	c.fresh.InvalidateAll()
	c.stale.InvalidateAll()
}

// Clock is the clock of an otter cache. It never ticks, so an expired value is removed only when the
// cache needs room for another value.
type Clock func() time.Time

func (c Clock) NowNano() int64 { return c().UnixNano() }

func (Clock) Tick(time.Duration) <-chan time.Time { return nil }
