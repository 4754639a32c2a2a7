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
	load  func(context.Context, K) (V, error)

	mu      sync.Mutex
	entries map[K]*entry[V]
}

type entry[V any] struct {
	value   V
	err     error
	began   time.Time
	done    chan struct{} // closed when the load has ended
	settled bool
}

func newFresh[K comparable, V any](maxAge time.Duration, limit int, load func(context.Context, K) (V, error)) *fresh[K, V] {
	return &fresh[K, V]{maxAge: maxAge, limit: limit, load: load, entries: make(map[K]*entry[V])}
}

// get returns a value at most maxAge old, or as old as the load that was under way.
func (f *fresh[K, V]) get(ctx context.Context, key K) (V, error) {
	f.mu.Lock()
	e := f.entries[key]
	if e == nil || (e.settled && (e.err != nil || time.Since(e.began) > f.maxAge)) {
		e = &entry[V]{began: time.Now(), done: make(chan struct{})}
		f.makeRoom()
		f.entries[key] = e
		f.mu.Unlock()
		return f.fill(ctx, key, e)
	}
	f.mu.Unlock()
	select {
	case <-e.done:
		return e.value, e.err
	case <-ctx.Done():
		var zero V
		return zero, ctx.Err()
	}
}

// fill loads in the goroutine of the reader that came first. That reader's leaving does not disturb the others.
func (f *fresh[K, V]) fill(ctx context.Context, key K, e *entry[V]) (V, error) {
	defer func() { // also after a panic of load, so that nobody waits for ever
		f.mu.Lock()
		e.settled = true
		if e.err != nil && f.entries[key] == e {
			delete(f.entries, key)
		}
		f.mu.Unlock()
		close(e.done)
	}()
	e.err = context.Canceled
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	e.value, e.err = f.load(ctx, key)
	return e.value, e.err
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
		if e.settled && time.Since(e.began) > f.maxAge {
			delete(f.entries, k)
		}
	}
}
