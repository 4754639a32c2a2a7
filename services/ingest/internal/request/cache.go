package request

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

const (
	freshFor  = time.Second // the age up to which most values are returned from the cache
	staleFor  = time.Minute // the age up to which a value is returned while it cannot be read
	maxCached = 10_000      // bounds the cached ids, among them those that do not exist
)

// Cache keeps each value for a short time after load has read it. Concurrent calls share a read.
type Cache[V any] struct {
	now   func() time.Time
	load  func(ctx context.Context, id string) (V, error)
	fresh *otter.Cache[string, cached[V]] // values up to the age that NewCache got
	stale *otter.Cache[string, cached[V]] // values up to staleFor
}

// cached is a value, or the error that there is none.
type cached[V any] struct {
	value V
	err   error     // of the kind errs.NotFound, or nil
	at    time.Time // when the read began, from which the age counts
}

// NewCache returns a Cache that keeps each value read by load for the time fresh.
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

// Get returns a value that is fresh, or up to a minute old while it cannot be read.
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

// read loads a value. A NotFound error is cached like a value; read fails with any other error.
func (c *Cache[V]) read(ctx context.Context, id string) (cached[V], error) {
	e := cached[V]{at: c.now()}
	e.value, e.err = c.load(ctx, id)
	var known *errs.Error
	if e.err != nil && !(errors.As(e.err, &known) && known.Kind == errs.NotFound) {
		return e, e.err
	}
	return e, nil
}

// Forget drops a value, after it was changed.
func (c *Cache[V]) Forget(id string) {
	c.fresh.Invalidate(id)
	c.stale.Invalidate(id)
}

// clock is the clock of a cache. It never ticks: an expired entry is removed when another needs its
// place.
type clock func() time.Time

func (c clock) NowNano() int64 { return c().UnixNano() }

func (clock) Tick(time.Duration) <-chan time.Time { return nil }
