package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// Groups keeps a Coalescer for each key, with its own queue and batches, so that a slow key delays
// no other. A key without calls takes no memory.
type Groups[K comparable, I, O any] struct {
	cfg     Config
	maxKeys int
	run     func(ctx context.Context, key K, items []I) ([]Result[O], error)

	mu     sync.Mutex
	keys   map[K]*keyGroup[I, O]
	closed bool
}

type keyGroup[I, O any] struct { // the queue of one key
	calls   *Coalescer[I, O]
	callers int // calls of Do that have not returned
}

// NewGroups makes Groups. cfg applies to each key. At most maxKeys keys (at least 1) are in use at
// once. fn runs a batch of one key and returns one result per item.
func NewGroups[K comparable, I, O any](cfg Config, maxKeys int, fn func(context.Context, K, []I) ([]Result[O], error)) *Groups[K, I, O] {
	return &Groups[K, I, O]{cfg: cfg, maxKeys: max(maxKeys, 1), run: fn, keys: make(map[K]*keyGroup[I, O])}
}

// Do runs one item in a batch of its key, as Coalescer.Do does. It also fails with
// errs.ErrOverloaded when maxKeys other keys are in use.
func (g *Groups[K, I, O]) Do(ctx context.Context, key K, in I) (O, error) {
	k, err := g.useGroup(key)
	if err != nil {
		var zero O
		return zero, err
	}
	defer g.releaseGroup(key, k, 1)
	return k.calls.Do(ctx, in)
}

// DoAll runs items in batches of their key. It fails like Coalescer.DoAll, and like Groups.Do.
func (g *Groups[K, I, O]) DoAll(ctx context.Context, key K, in []I) []Result[O] {
	k, err := g.useGroup(key)
	if err != nil {
		return slices.Repeat([]Result[O]{{Err: err}}, len(in))
	}
	defer g.releaseGroup(key, k, 1)
	return k.calls.DoAll(ctx, in)
}

func (g *Groups[K, I, O]) useGroup(key K) (*keyGroup[I, O], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errs.ErrUnavailable
	}
	k := g.keys[key]
	if k == nil {
		if len(g.keys) >= g.maxKeys {
			return nil, errs.ErrOverloaded.WithRetry(time.Second)
		}
		k = &keyGroup[I, O]{calls: NewItems(g.cfg, func(ctx context.Context, items []I) ([]Result[O], error) { return g.run(ctx, key, items) })}
		k.calls.onIdle = func() { g.releaseGroup(key, k, 0) }
		g.keys[key] = k
	}
	k.callers++
	return k, nil
}

// releaseGroup removes the group of a key when it is no longer used: when its last caller returns
// or, if that caller gave up earlier, when its last batch ends. callers is how many callers return.
func (g *Groups[K, I, O]) releaseGroup(key K, k *keyGroup[I, O], callers int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k.callers -= callers
	if k.callers == 0 && g.keys[key] == k && k.calls.hasNoWork() {
		delete(g.keys, key)
	}
}

func (g *Groups[K, I, O]) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	open := make([]*keyGroup[I, O], 0, len(g.keys))
	for _, k := range g.keys {
		open = append(open, k)
	}
	g.mu.Unlock()
	var closeErrors []error
	for _, k := range open {
		closeErrors = append(closeErrors, k.calls.Close(ctx))
	}
	return errors.Join(closeErrors...)
}
