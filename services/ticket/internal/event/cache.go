package event

import (
	"context"
	"sync"
	"time"
)

// loadTimeout is the time limit of one load. A load ignores the deadline of the reader that started
// it, since other readers wait for the same value.
const loadTimeout = 3 * time.Second

// cache runs one load of a key at a time, however many readers want it, and serves the value to all
// of them until it is maxAge old, counted from the start of the load. Errors are not cached.
//
// otter.Cache is not used, since its InvalidateAll promises nothing for keys that are being loaded:
// a list of events that was read before a change could still be served after the change.
type cache[K comparable, V any] struct {
	maxAge time.Duration
	// limit: once the cache has this many entries, a new key evicts the expired ones.
	limit int
	load  func(context.Context, []K) (map[K]V, error)
	// maxAgeOf, unless nil, replaces maxAge by a maximum age for each value.
	maxAgeOf func(V) time.Duration
	// maxKeysPerLoad is the most keys of one load; 0: there is no limit.
	maxKeysPerLoad int

	mu      sync.Mutex
	entries map[K]*entry[V]
}

// entry is a cached value (or error), or a load that is under way.
type entry[V any] struct {
	value  V
	err    error
	began  time.Time     // the start of the load
	done   chan struct{} // closed at the end of the load
	loaded bool          // guarded by cache.mu
}

func newCache[K comparable, V any](maxAge time.Duration, limit int, load func(context.Context, K) (V, error)) *cache[K, V] {
	return newBatchCache(maxAge, limit, func(ctx context.Context, keys []K) (map[K]V, error) {
		value, err := load(ctx, keys[0])
		return map[K]V{keys[0]: value}, err
	})
}

// newBatchCache makes a cache whose load reads several keys. The zero value is cached for keys that
// load leaves out.
func newBatchCache[K comparable, V any](maxAge time.Duration, limit int, load func(context.Context, []K) (map[K]V, error)) *cache[K, V] {
	return &cache[K, V]{maxAge: maxAge, limit: limit, load: load, entries: make(map[K]*entry[V])}
}

// get returns the cached value of a key, or the result of its load.
func (c *cache[K, V]) get(ctx context.Context, key K) (V, error) {
	c.mu.Lock()
	e, toLoad := c.claim(key)
	c.mu.Unlock()
	if toLoad {
		c.fill(ctx, []K{key}, []*entry[V]{e})
	}
	return e.wait(ctx)
}

// timedValue is a cached value with the time at which its load began.
type timedValue[V any] struct {
	value V
	began time.Time
}

// getAll returns the values of several keys, in the order of the keys. A load that fails is an
// error for all readers that wait for one of its keys; the values of other loads are kept.
func (c *cache[K, V]) getAll(ctx context.Context, keys []K) ([]timedValue[V], error) {
	entries := make([]*entry[V], len(keys))
	var missingKeys []K
	var missing []*entry[V]
	c.mu.Lock()
	for i, k := range keys {
		e, toLoad := c.claim(k)
		if entries[i] = e; toLoad {
			missingKeys, missing = append(missingKeys, k), append(missing, e)
		}
	}
	c.mu.Unlock()
	c.fillAll(ctx, missingKeys, missing)
	values := make([]timedValue[V], len(keys))
	for i, e := range entries {
		v, err := e.wait(ctx)
		if err != nil {
			return nil, err
		}
		values[i] = timedValue[V]{value: v, began: e.began}
	}
	return values, nil
}

// claim returns the entry of a key. If toLoad is true, it is a new entry that the caller must fill.
// The caller holds c.mu.
func (c *cache[K, V]) claim(key K) (e *entry[V], toLoad bool) {
	e = c.entries[key]
	if e != nil && (!e.loaded || e.err == nil && !c.expired(e)) {
		return e, false
	}
	c.evictExpired()
	e = &entry[V]{began: time.Now(), done: make(chan struct{})}
	c.entries[key] = e
	return e, true
}

func (c *cache[K, V]) expired(e *entry[V]) bool {
	maxAge := c.maxAge
	if c.maxAgeOf != nil {
		maxAge = c.maxAgeOf(e.value)
	}
	return time.Since(e.began) > maxAge
}

// wait returns the loaded value, or the error of ctx when that ends before the load.
func (e *entry[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-e.done:
		return e.value, e.err
	default:
	}
	select {
	case <-e.done:
		return e.value, e.err
	case <-ctx.Done():
		var zero V
		return zero, ctx.Err()
	}
}

// fillAll fills entries by successive loads of at most maxKeysPerLoad keys.
func (c *cache[K, V]) fillAll(ctx context.Context, keys []K, entries []*entry[V]) {
	n := len(keys)
	if n == 0 {
		return
	}
	if c.maxKeysPerLoad > 0 {
		n = min(n, c.maxKeysPerLoad)
	}
	defer c.fillAll(ctx, keys[n:], entries[n:]) // deferred, so that it also runs when load panics
	c.fill(ctx, keys[:n], entries[:n])
}

// fill loads keys into their entries. The load goes on if ctx, the first reader's, is cancelled.
func (c *cache[K, V]) fill(ctx context.Context, keys []K, entries []*entry[V]) {
	var values map[K]V
	err := context.Canceled
	defer func() { // deferred, so that readers also stop waiting when load panics
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, e := range entries {
			e.value, e.err, e.loaded = values[keys[i]], err, true
			if err != nil && c.entries[keys[i]] == e {
				delete(c.entries, keys[i])
			}
			close(e.done)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	values, err = c.load(ctx, keys)
}

func (c *cache[K, V]) invalidate(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

func (c *cache[K, V]) invalidateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}

// evictExpired deletes expired entries when the limit is reached. The caller holds c.mu.
func (c *cache[K, V]) evictExpired() {
	if len(c.entries) < c.limit {
		return
	}
	for k, e := range c.entries {
		if e.loaded && c.expired(e) {
			delete(c.entries, k)
		}
	}
}

// Cached puts a cache before load: the returned function returns values that are at most maxAge
// old, and runs load once for a key, however many callers want the key at the same time.
func Cached[V any](maxAge time.Duration, load func(context.Context, string) (V, error)) func(context.Context, string) (V, error) {
	return newCache(maxAge, maxCached, load).get
}
