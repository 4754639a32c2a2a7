package request

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// entryOverhead is the memory of an entry without its value, in bytes.
const entryOverhead = 200

// loadTimeout bounds the load of a value. The load continues when its caller leaves, since other
// callers wait for it too.
const loadTimeout = time.Minute

// SizedCache keeps the values that were used last, up to a total size. Values never change. Concurrent
// calls share a load. It is no otter cache, since that keeps no value above the bound, so that each
// call would read the largest draws again, and prefers values that were used often to recent ones.
type SizedCache[K comparable, V any] struct {
	max  int64
	load func(ctx context.Context, id K) (V, error)
	size func(V) int64

	mu      sync.Mutex
	total   int64
	entries map[K]*list.Element // of *sizedEntry
	recent  *list.List          // the latest first
}

// sizedEntry is a value in a SizedCache, or its load.
type sizedEntry[K comparable, V any] struct {
	id      K
	loading sync.Mutex // held during the load
	loaded  bool
	value   V
	size    int64 // 0 until it is loaded
}

// NewSizedCache keeps values of at most maxBytes in all; a larger value is kept alone.
func NewSizedCache[K comparable, V any](maxBytes int64, load func(context.Context, K) (V, error), size func(V) int64) *SizedCache[K, V] {
	return &SizedCache[K, V]{max: maxBytes, load: load, size: size, entries: map[K]*list.Element{}, recent: list.New()}
}

// Get returns the value of an id. A failed load is not kept.
func (c *SizedCache[K, V]) Get(ctx context.Context, id K) (V, error) {
	e := c.entry(id)
	e.loading.Lock()
	defer e.loading.Unlock()
	if e.loaded {
		return e.value, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	v, err := c.load(ctx, id)
	if err != nil {
		c.drop(e)
		return v, err
	}
	e.value, e.loaded = v, true
	c.addSize(e, c.size(v))
	return v, nil
}

func (c *SizedCache[K, V]) entry(id K) *sizedEntry[K, V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[id]; at != nil {
		c.recent.MoveToFront(at)
		return entryAt[K, V](at)
	}
	e := &sizedEntry[K, V]{id: id}
	c.entries[id] = c.recent.PushFront(e)
	return e
}

// addSize adds the size of a loaded value, and drops the least recently used values above max.
func (c *SizedCache[K, V]) addSize(e *sizedEntry[K, V], size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[e.id]; at == nil || entryAt[K, V](at) != e {
		return // dropped meanwhile
	}
	e.size = size + entryOverhead
	c.total += e.size
	for at := c.recent.Back(); at != nil && c.total > c.max; {
		next := at.Prev()
		if old := entryAt[K, V](at); old != e && old.size > 0 {
			c.remove(at)
		}
		at = next
	}
}

func (c *SizedCache[K, V]) drop(e *sizedEntry[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[e.id]; at != nil && entryAt[K, V](at) == e {
		c.remove(at)
	}
}

func (c *SizedCache[K, V]) remove(at *list.Element) {
	old := entryAt[K, V](at)
	c.total -= old.size
	delete(c.entries, old.id)
	c.recent.Remove(at)
}

func entryAt[K comparable, V any](at *list.Element) *sizedEntry[K, V] {
	return at.Value.(*sizedEntry[K, V]) //nolint:forcetypeassert // the list's only type
}
