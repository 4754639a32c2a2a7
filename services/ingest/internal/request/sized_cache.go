package request

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// entryOverhead is the memory of an entry without its value, in bytes.
const entryOverhead = 200

// loadTimeout is the time limit of loading a value. The load continues when the caller that began
// it stops waiting, since other callers wait for it too.
const loadTimeout = time.Minute

// SizedCache keeps the most recently used values, up to a total size. Values never change.
// Concurrent calls share a load. The library otter is not used, since it prefers frequent values
// and keeps none above the maximum size, so that each call would read the largest draws again.
type SizedCache[K comparable, V any] struct {
	max  int64
	load func(ctx context.Context, id K) (V, error)
	size func(V) int64

	mu      sync.Mutex
	total   int64
	entries map[K]*list.Element // of *sizedEntry
	recent  *list.List          // the most recently used first
}

// sizedEntry is a value in a SizedCache, loaded or still being loaded.
type sizedEntry[K comparable, V any] struct {
	id      K
	loading sync.Mutex // held during the load
	loaded  bool
	value   V
	size    int64 // 0 until it is loaded
}

// NewSizedCache returns a SizedCache of at most maxBytes. A larger value is kept alone.
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
	if element := c.entries[id]; element != nil {
		c.recent.MoveToFront(element)
		return entryAt[K, V](element)
	}
	e := &sizedEntry[K, V]{id: id}
	c.entries[id] = c.recent.PushFront(e)
	return e
}

// addSize adds the size of a loaded value, and drops the least recently used values above max.
func (c *SizedCache[K, V]) addSize(e *sizedEntry[K, V], size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.entries[e.id]; element == nil || entryAt[K, V](element) != e {
		return // the entry was dropped during the load
	}
	e.size = size + entryOverhead
	c.total += e.size
	for element := c.recent.Back(); element != nil && c.total > c.max; {
		next := element.Prev()
		if old := entryAt[K, V](element); old != e && old.size > 0 {
			c.remove(element)
		}
		element = next
	}
}

func (c *SizedCache[K, V]) drop(e *sizedEntry[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.entries[e.id]; element != nil && entryAt[K, V](element) == e {
		c.remove(element)
	}
}

func (c *SizedCache[K, V]) remove(element *list.Element) {
	old := entryAt[K, V](element)
	c.total -= old.size
	delete(c.entries, old.id)
	c.recent.Remove(element)
}

func entryAt[K comparable, V any](element *list.Element) *sizedEntry[K, V] {
	return element.Value.(*sizedEntry[K, V]) //nolint:forcetypeassert // the list's only type
}
