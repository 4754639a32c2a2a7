package event

import (
	"context"
	"sync"
	"time"
)

// loadTimeout bounds one load. It is independent of its caller's deadline, since other readers wait
// for the same value.
const loadTimeout = 3 * time.Second

// cache loads each key once at a time, however many readers want it, and serves the value to all of
// them until it is maxAge old, counted from the start of the load. Errors are not cached.
//
// It is no otter.Cache since InvalidateAll there promises nothing for keys that are being loaded: a
// list that was read before an event was put could be served after it.
type cache[K comparable, V any] struct {
	maxAge time.Duration
	// limit is the most keys cached; above it expired entries are evicted.
	limit int
	load  func(context.Context, []K) (map[K]V, error)
	// maxAgeOf, unless nil, replaces maxAge for a value; maxKeysPerLoad, unless 0, is the most keys
	// of one load.
	maxAgeOf       func(V) time.Duration
	maxKeysPerLoad int

	mu      sync.Mutex
	entries map[K]*entry[V]
}

type entry[V any] struct {
	value   V
	err     error
	began   time.Time     // when the load began
	done    chan struct{} // closed when the load has ended
	settled bool
}

func newCache[K comparable, V any](maxAge time.Duration, limit int, load func(context.Context, K) (V, error)) *cache[K, V] {
	return newBatchCache(maxAge, limit, func(ctx context.Context, keys []K) (map[K]V, error) {
		value, err := load(ctx, keys[0])
		return map[K]V{keys[0]: value}, err
	})
}

// newBatchCache makes a cache that loads all missing keys of a reader together. Keys that load
// leaves out have the zero value.
func newBatchCache[K comparable, V any](maxAge time.Duration, limit int, load func(context.Context, []K) (map[K]V, error)) *cache[K, V] {
	return &cache[K, V]{maxAge: maxAge, limit: limit, load: load, entries: make(map[K]*entry[V])}
}

// get returns a value at most maxAge old, or the result of the load that is running.
func (c *cache[K, V]) get(ctx context.Context, key K) (V, error) {
	c.mu.Lock()
	e, owned := c.claim(key)
	c.mu.Unlock()
	if owned {
		c.fill(ctx, []K{key}, []*entry[V]{e})
	}
	return e.wait(ctx)
}

// loaded is a value and when its load began.
type loaded[V any] struct {
	value V
	began time.Time
}

// getAll is get for several keys, in their order. A failed load fails all readers of one of its
// keys; the values of other loads are kept.
func (c *cache[K, V]) getAll(ctx context.Context, keys []K) ([]loaded[V], error) {
	entries := make([]*entry[V], len(keys))
	var missing []K
	var owned []*entry[V]
	c.mu.Lock()
	for i, k := range keys {
		e, toLoad := c.claim(k)
		if entries[i] = e; toLoad {
			missing, owned = append(missing, k), append(owned, e)
		}
	}
	c.mu.Unlock()
	c.fillAll(ctx, missing, owned)
	values := make([]loaded[V], len(keys))
	for i, e := range entries {
		v, err := e.wait(ctx)
		if err != nil {
			return nil, err
		}
		values[i] = loaded[V]{value: v, began: e.began}
	}
	return values, nil
}

// claim returns the entry of a key, and whether the caller has to load it. The caller
// must hold c.mu.
func (c *cache[K, V]) claim(key K) (*entry[V], bool) {
	e := c.entries[key]
	if e != nil && (!e.settled || e.err == nil && !c.expired(e)) {
		return e, false
	}
	c.evictExpired()
	e = &entry[V]{began: time.Now(), done: make(chan struct{})}
	c.entries[key] = e
	return e, true
}

// expired reports whether a value is older than it may be.
func (c *cache[K, V]) expired(e *entry[V]) bool {
	maxAge := c.maxAge
	if c.maxAgeOf != nil {
		maxAge = c.maxAgeOf(e.value)
	}
	return time.Since(e.began) > maxAge
}

// wait returns the loaded value, or the context's error when ctx ends first.
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

// fillAll is fill by loads of at most maxKeysPerLoad keys, one after the other.
func (c *cache[K, V]) fillAll(ctx context.Context, keys []K, entries []*entry[V]) {
	n := len(keys)
	if n == 0 {
		return
	}
	if c.maxKeysPerLoad > 0 {
		n = min(n, c.maxKeysPerLoad)
	}
	defer c.fillAll(ctx, keys[n:], entries[n:]) // also after a panic of load
	c.fill(ctx, keys[:n], entries[:n])
}

// fill loads in the goroutine of the first reader, and goes on when that reader's context ends.
func (c *cache[K, V]) fill(ctx context.Context, keys []K, entries []*entry[V]) {
	var values map[K]V
	err := context.Canceled
	defer func() { // also after a panic of load, so that no reader waits for ever
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, e := range entries {
			e.value, e.err, e.settled = values[keys[i]], err, true
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

// invalidate makes the next reader load the key again.
func (c *cache[K, V]) invalidate(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// invalidateAll makes the next reader of every key load it again.
func (c *cache[K, V]) invalidateAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}

// evictExpired is called with the lock held.
func (c *cache[K, V]) evictExpired() {
	if len(c.entries) < c.limit {
		return
	}
	for k, e := range c.entries {
		if e.settled && c.expired(e) {
			delete(c.entries, k)
		}
	}
}
