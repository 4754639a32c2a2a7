package request

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// keptOverhead is what an entry takes beside its value.
const keptOverhead = 200

// loadTimeout bounds the load of a value. A caller that leaves earlier does not end it, since the
// others wait for it too.
const loadTimeout = time.Minute

// Kept keeps values that never change, the recently used ones, up to a total size. A value is loaded
// once; concurrent calls wait for it. It is no otter cache: that keeps no value above the bound, so that
// each call would read the largest draws anew, and prefers values that were used often to recent ones.
type Kept[V any] struct {
	max  int64
	load func(ctx context.Context, id string) (V, error)
	size func(V) int64

	mu      sync.Mutex
	total   int64
	entries map[string]*list.Element // of *kept
	recent  *list.List               // the latest first
}

type kept[V any] struct {
	id      string
	loading sync.Mutex // one loads at a time
	loaded  bool
	value   V
	size    int64 // 0 until it is loaded
}

// NewKept keeps values of at most most bytes together; one larger value is kept alone.
func NewKept[V any](most int64, load func(context.Context, string) (V, error), size func(V) int64) *Kept[V] {
	return &Kept[V]{max: most, load: load, size: size, entries: map[string]*list.Element{}, recent: list.New()}
}

// Get returns the value of an id. A failed load is not kept.
func (c *Kept[V]) Get(ctx context.Context, id string) (V, error) {
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

func (c *Kept[V]) entry(id string) *kept[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[id]; at != nil {
		c.recent.MoveToFront(at)
		return of[V](at)
	}
	e := &kept[V]{id: id}
	c.entries[id] = c.recent.PushFront(e)
	return e
}

// account adds the size of a loaded value, and drops those that were not used for longest.
func (c *Kept[V]) account(e *kept[V], size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[e.id]; at == nil || of[V](at) != e {
		return // dropped meanwhile
	}
	e.size = size + keptOverhead
	c.total += e.size
	for at := c.recent.Back(); at != nil && c.total > c.max; {
		before := at.Prev()
		if old := of[V](at); old != e && old.size > 0 {
			c.remove(at)
		}
		at = before
	}
}

func (c *Kept[V]) drop(e *kept[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[e.id]; at != nil && of[V](at) == e {
		c.remove(at)
	}
}

func (c *Kept[V]) remove(at *list.Element) {
	old := of[V](at)
	c.total -= old.size
	delete(c.entries, old.id)
	c.recent.Remove(at)
}

func of[V any](at *list.Element) *kept[V] {
	return at.Value.(*kept[V]) //nolint:forcetypeassert // the list's only type
}
