package line

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"urr.guru/pkg/errs"
)

const (
	// positiveTTL is how long the existence of an event is cached. Events are never deleted.
	positiveTTL = time.Minute
	// negativeTTL is how long any other result is cached. The event may be created, or ticket
	// recover, at any time.
	negativeTTL = time.Second
	// existenceTimeout bounds the call to ticket; visitors wait for it.
	existenceTimeout = 500 * time.Millisecond
	// existenceCacheSize bounds the cache, since ids may be made up.
	existenceCacheSize = 10_000
	// backgroundLimit bounds the calls in the background.
	backgroundLimit = 8
)

// eventExistenceCache caches which events exist, so that a made-up id gets no line. It is used only
// for events without a line. Concurrent lookups of an event share one call to ticket. It is safe
// for concurrent use.
type eventExistenceCache struct {
	now    func() time.Time
	lookUp func(ctx context.Context, eventID string) error
	calls  singleflight.Group

	mu           sync.Mutex
	results      map[string]existenceResult
	inBackground map[string]bool // looked up in the background
	work         sync.WaitGroup
}

type existenceResult struct {
	err   error
	until time.Time
}

func newEventExistenceCache(now func() time.Time, lookUp func(context.Context, string) error) *eventExistenceCache {
	return &eventExistenceCache{now: now, lookUp: lookUp, results: make(map[string]existenceResult), inBackground: make(map[string]bool)}
}

// has returns nil for an event that exists, ErrEventUnknown for one that does not, and
// errs.ErrUnavailable when ticket does not answer.
func (c *eventExistenceCache) has(ctx context.Context, eventID string) error {
	if v, ok := c.cached(eventID); ok {
		return v.err
	}
	_, err, _ := c.calls.Do(eventID, func() (any, error) {
		// Other callers share the result, so this caller's cancellation must not end the call.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), existenceTimeout)
		defer cancel()
		err := c.lookUp(ctx, eventID)
		if err != nil && !errors.Is(err, ErrEventUnknown) {
			err = errs.ErrUnavailable.Wrap(err).WithRetry(negativeTTL)
		}
		c.store(eventID, err)
		return nil, err
	})
	return err
}

// hasAsync is has without waiting. It reports whether the event is known to exist; while nothing is
// known, it looks it up in the background.
func (c *eventExistenceCache) hasAsync(ctx context.Context, eventID string) (exists bool, err error) {
	if v, ok := c.cached(eventID); ok {
		return v.err == nil, v.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inBackground[eventID] || len(c.inBackground) >= backgroundLimit {
		return false, nil
	}
	c.inBackground[eventID] = true
	ctx = context.WithoutCancel(ctx) // has bounds it
	c.work.Go(func() {
		_ = c.has(ctx, eventID) // cached for the next call
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.inBackground, eventID)
	})
	return false, nil
}

// wait waits for the background calls.
func (c *eventExistenceCache) wait() { c.work.Wait() }

func (c *eventExistenceCache) cached(eventID string) (existenceResult, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.results[eventID]
	return v, ok && c.now().Before(v.until)
}

func (c *eventExistenceCache) store(eventID string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, life := c.now(), negativeTTL
	if err == nil {
		life = positiveTTL
	}
	if len(c.results) >= existenceCacheSize {
		maps.DeleteFunc(c.results, func(_ string, v existenceResult) bool { return !now.Before(v.until) })
	}
	if len(c.results) < existenceCacheSize {
		c.results[eventID] = existenceResult{err: err, until: now.Add(life)}
	}
}
