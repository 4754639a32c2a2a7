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
type SizedCache[V any] struct {
	max  int64
	load func(ctx context.Context, id string) (V, error)
	size func(V) int64

	mu      sync.Mutex
	total   int64
	entries map[string]*list.Element // of *sizedEntry
	recent  *list.List               // the latest first
}

type sizedEntry[V any] struct {
	id      string
	loading sync.Mutex // held during the load
	loaded  bool
	value   V
	size    int64 // 0 until it is loaded
}

// NewSizedCache keeps values of at most maxBytes in all; a larger value is kept alone.
func NewSizedCache[V any](maxBytes int64, load func(context.Context, string) (V, error), size func(V) int64) *SizedCache[V] {
	return &SizedCache[V]{max: maxBytes, load: load, size: size, entries: map[string]*list.Element{}, recent: list.New()}
}

// Get returns the value of an id. A failed load is not kept.
func (c *SizedCache[V]) Get(ctx context.Context, id string) (V, error) {
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
	c.account(e, c.size(v))
	return v, nil
}

func (c *SizedCache[V]) entry(id string) *sizedEntry[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[id]; at != nil {
		c.recent.MoveToFront(at)
		return entryAt[V](at)
	}
	e := &sizedEntry[V]{id: id}
	c.entries[id] = c.recent.PushFront(e)
	return e
}

// account adds the size of a loaded value, and drops the values that were not used for longest.
func (c *SizedCache[V]) account(e *sizedEntry[V], size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[e.id]; at == nil || entryAt[V](at) != e {
		return // dropped meanwhile
	}
	e.size = size + entryOverhead
	c.total += e.size
	for at := c.recent.Back(); at != nil && c.total > c.max; {
		next := at.Prev()
		if old := entryAt[V](at); old != e && old.size > 0 {
			c.remove(at)
		}
		at = next
	}
}

func (c *SizedCache[V]) drop(e *sizedEntry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[e.id]; at != nil && entryAt[V](at) == e {
		c.remove(at)
	}
}

func (c *SizedCache[V]) remove(at *list.Element) {
	old := entryAt[V](at)
	c.total -= old.size
	delete(c.entries, old.id)
	c.recent.Remove(at)
}

func entryAt[V any](at *list.Element) *sizedEntry[V] {
	return at.Value.(*sizedEntry[V]) //nolint:forcetypeassert // the list's only type
}
