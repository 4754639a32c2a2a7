package request

import (
	"context"
	"errors"
	"sync"
	"time"

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
	now  func() time.Time
	load func(ctx context.Context, id string) (V, error)

	mu      sync.Mutex
	entries map[string]*cached[V]
}

type cached[V any] struct {
	reading sync.Mutex // one reads at a time
	mu      sync.Mutex
	value   V
	err     error // a refusal that is as cacheable as a value
	at      time.Time
}

// NewCache makes a cache over load.
func NewCache[V any](now func() time.Time, load func(context.Context, string) (V, error)) *Cache[V] {
	return &Cache[V]{now: now, load: load, entries: make(map[string]*cached[V])}
}

// Get returns a value that is at most a second old, or up to a minute while it cannot be read.
func (c *Cache[V]) Get(ctx context.Context, id string) (V, error) {
	e := c.entry(id)
	if v, age, err := e.get(c.now()); age < fresh {
		return v, err
	}
	e.reading.Lock()
	defer e.reading.Unlock()
	v, age, err := e.get(c.now())
	if age < fresh { // read by another call meanwhile
		return v, err
	}
	began := c.now()
	next, failure := c.load(ctx, id)
	var known *errs.Error
	if failure == nil || errors.As(failure, &known) && known.Kind == errs.NotFound {
		e.set(next, failure, began)
		return next, failure
	}
	if age < stale {
		return v, err
	}
	return next, failure
}

// Forget drops a value, after it was changed.
func (c *Cache[V]) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, id)
}

func (c *Cache[V]) entry(id string) *cached[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil {
		if len(c.entries) >= maxCached {
			clear(c.entries) // only ids that do not exist can be that many
		}
		e = &cached[V]{}
		c.entries[id] = e
	}
	return e
}

// get returns the value or the refusal, and how old it is; never read counts as stale.
func (e *cached[V]) get(now time.Time) (v V, age time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at.IsZero() {
		return e.value, stale, e.err
	}
	return e.value, now.Sub(e.at), e.err
}

func (e *cached[V]) set(v V, err error, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.value, e.err, e.at = v, err, at
}
