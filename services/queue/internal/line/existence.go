package line

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/errs"
)

const (
	// positiveTTL is how long the existence of an event is cached. Events are never deleted.
	positiveTTL = time.Minute
	// negativeTTL is how long any other result is cached. The event may be created, or ticket
	// recover, at any time.
	negativeTTL        = time.Second
	existenceTimeout   = 500 * time.Millisecond // bounds the call to ticket; visitors wait for it
	existenceCacheSize = 10_000                 // bounds the cache, since ids may be made up
	backgroundLimit    = 8                      // bounds the calls in the background
)

// eventExistenceCache caches which events exist, so that a made-up id gets no line. It is used only
// for events without a line. Concurrent lookups share one call. It is safe for concurrent use.
type eventExistenceCache struct {
	lookUp func(ctx context.Context, eventID string) error
	// results has the result of check by event id; nil for an event that exists.
	results *otter.Cache[string, error]

	mu           sync.Mutex
	inBackground map[string]bool // looked up in the background
	work         sync.WaitGroup
}

func newEventExistenceCache(now func() time.Time, lookUp func(context.Context, string) error) *eventExistenceCache {
	return &eventExistenceCache{
		lookUp: lookUp, inBackground: make(map[string]bool),
		results: otter.Must(&otter.Options[string, error]{ // constants, which are valid
			MaximumSize: existenceCacheSize, Clock: cacheClock(now),
			ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[string, error]) time.Duration {
				if e.Value == nil {
					return positiveTTL
				}
				return negativeTTL
			}),
		}),
	}
}

// cacheClock is the clock of a cache without a goroutine of its own: writes remove expired results.
type cacheClock func() time.Time

func (now cacheClock) NowNano() int64 { return now().UnixNano() }

func (cacheClock) Tick(time.Duration) <-chan time.Time { return nil }

// check returns nil for an event that exists, ErrEventUnknown for one that does not, and
// errs.ErrUnavailable when ticket does not answer.
func (c *eventExistenceCache) check(ctx context.Context, eventID string) error {
	result, err := c.results.Get(ctx, eventID, otter.LoaderFunc[string, error](c.loadResult))
	if err != nil { // ctx has ended
		return unavailableError(err)
	}
	return result
}

func (c *eventExistenceCache) loadResult(ctx context.Context, eventID string) (result, failure error) {
	// Other callers share the result, so this caller's cancellation must not end the call.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), existenceTimeout)
	defer cancel()
	result = c.lookUp(ctx, eventID)
	if result != nil && !errors.Is(result, ErrEventUnknown) {
		result = unavailableError(result)
	}
	return result, nil
}

func unavailableError(err error) error { return errs.ErrUnavailable.Wrap(err).WithRetry(negativeTTL) }

// checkAsync is check without waiting. It reports whether the event is known to exist; while
// nothing is known, it looks it up in the background.
func (c *eventExistenceCache) checkAsync(ctx context.Context, eventID string) (exists bool, err error) {
	if result, ok := c.results.GetIfPresent(eventID); ok {
		return result == nil, result
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inBackground[eventID] || len(c.inBackground) >= backgroundLimit {
		return false, nil
	}
	c.inBackground[eventID] = true
	ctx = context.WithoutCancel(ctx) // load bounds it
	c.work.Go(func() {
		_ = c.check(ctx, eventID) // cached for the next call
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.inBackground, eventID)
	})
	return false, nil
}

func (c *eventExistenceCache) wait() { c.work.Wait() }
