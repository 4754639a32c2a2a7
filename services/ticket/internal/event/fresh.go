package event

import (
	"context"
	"sync"
	"time"
)

// loadTimeout bounds one read; it is nobody's own deadline, since others wait for the same answer.
const loadTimeout = 3 * time.Second

// fresh coalesces reads: whatever the number of readers, a key is loaded once at a time, and what was loaded serves everybody for maxAge
// counted from the start of the load. Errors are never kept.
type fresh[K comparable, V any] struct {
	maxAge time.Duration
	// limit is the most keys remembered; past it those that are too old anyway are forgotten.
	limit int
	load  func(context.Context, []K) (map[K]V, error)
	// lasts, unless nil, is maxAge for a value; atOnce, unless 0, the most keys of one load.
	lasts  func(V) time.Duration
	atOnce int

	mu      sync.Mutex
	entries map[K]*entry[V]
}

type entry[V any] struct {
	value   V
	err     error
	began   time.Time     // when the load did
	done    chan struct{} // closed when the load has ended
	settled bool
}

func newFresh[K comparable, V any](maxAge time.Duration, limit int, load func(context.Context, K) (V, error)) *fresh[K, V] {
	return newFreshBatch(maxAge, limit, func(ctx context.Context, keys []K) (map[K]V, error) {
		value, err := load(ctx, keys[0])
		return map[K]V{keys[0]: value}, err
	})
}

// newFreshBatch loads all keys that a reader wants and nobody has yet together. Those that load leaves
// out have the zero value.
func newFreshBatch[K comparable, V any](maxAge time.Duration, limit int, load func(context.Context, []K) (map[K]V, error)) *fresh[K, V] {
	return &fresh[K, V]{maxAge: maxAge, limit: limit, load: load, entries: make(map[K]*entry[V])}
}

// get returns a value at most maxAge old, or as old as the load that was under way.
func (f *fresh[K, V]) get(ctx context.Context, key K) (V, error) {
	f.mu.Lock()
	e, mine := f.claim(key)
	f.mu.Unlock()
	if mine {
		f.fill(ctx, []K{key}, []*entry[V]{e})
	}
	return e.wait(ctx)
}

// dated is a value and when its load began.
type dated[V any] struct {
	value V
	began time.Time
}

// getAll is get for several keys, in their order. A load that fails fails all readers of one of its
// keys; what other loads bring is kept.
func (f *fresh[K, V]) getAll(ctx context.Context, keys []K) ([]dated[V], error) {
	entries := make([]*entry[V], len(keys))
	var missing []K
	var mine []*entry[V]
	f.mu.Lock()
	for i, k := range keys {
		e, toLoad := f.claim(k)
		if entries[i] = e; toLoad {
			missing, mine = append(missing, k), append(mine, e)
		}
	}
	f.mu.Unlock()
	f.fillAll(ctx, missing, mine)
	values := make([]dated[V], len(keys))
	for i, e := range entries {
		v, err := e.wait(ctx)
		if err != nil {
			return nil, err
		}
		values[i] = dated[V]{value: v, began: e.began}
	}
	return values, nil
}

// claim returns the entry of a key, and whether the caller has to fill it. The lock is held.
func (f *fresh[K, V]) claim(key K) (*entry[V], bool) {
	e := f.entries[key]
	if e != nil && (!e.settled || e.err == nil && !f.old(e)) {
		return e, false
	}
	f.makeRoom()
	e = &entry[V]{began: time.Now(), done: make(chan struct{})}
	f.entries[key] = e
	return e, true
}

// old reports whether a value has served its time.
func (f *fresh[K, V]) old(e *entry[V]) bool {
	lasts := f.maxAge
	if f.lasts != nil {
		lasts = f.lasts(e.value)
	}
	return time.Since(e.began) > lasts
}

// wait returns what was loaded, unless the reader leaves before.
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

// fillAll is fill in loads of atOnce keys, one after the other.
func (f *fresh[K, V]) fillAll(ctx context.Context, keys []K, entries []*entry[V]) {
	n := len(keys)
	if n == 0 {
		return
	}
	if f.atOnce > 0 {
		n = min(n, f.atOnce)
	}
	defer f.fillAll(ctx, keys[n:], entries[n:]) // also after a panic of load
	f.fill(ctx, keys[:n], entries[:n])
}

// fill loads in the goroutine of the reader that came first. That reader's leaving does not disturb the others.
func (f *fresh[K, V]) fill(ctx context.Context, keys []K, entries []*entry[V]) {
	var values map[K]V
	err := context.Canceled
	defer func() { // also after a panic of load, so that nobody waits for ever
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, e := range entries {
			e.value, e.err, e.settled = values[keys[i]], err, true
			if err != nil && f.entries[keys[i]] == e {
				delete(f.entries, keys[i])
			}
			close(e.done)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	values, err = f.load(ctx, keys)
}

// forget makes the next reader load the key anew.
func (f *fresh[K, V]) forget(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.entries, key)
}

// forgetAll does so for every key.
func (f *fresh[K, V]) forgetAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.entries)
}

// makeRoom is called with the lock held.
func (f *fresh[K, V]) makeRoom() {
	if len(f.entries) < f.limit {
		return
	}
	for k, e := range f.entries {
		if e.settled && f.old(e) {
			delete(f.entries, k)
		}
	}
}
