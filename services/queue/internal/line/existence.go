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
	// positiveTTL is how long the result that an event exists is cached. Events are never deleted.
	positiveTTL = time.Minute
	// negativeTTL is how long any other result is cached, since the event may be created, or the
	// ticket service may answer again, at any time.
	negativeTTL        = time.Second
	existenceTimeout   = 500 * time.Millisecond // the time limit of a call; visitors wait for it
	existenceCacheSize = 10_000                 // the maximum number of cached events, since ids may be made up
	backgroundLimit    = 8                      // the most calls that run in the background
)

// eventExistenceCache asks the ticket service whether events exist, so that a made-up id gets no
// line, and caches the answers. It is used only for events without a line. Concurrent lookups of an
// event share one call.
type eventExistenceCache struct {
	lookUp func(ctx context.Context, eventID string) error
	// results holds the results of check by event id: nil for an event that exists.
	results *otter.Cache[string, error]

	mu           sync.Mutex
	inBackground map[string]bool // the events that are being looked up in the background
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

// cacheClock adapts a clock to the cache library. Its Tick returns nil, so that the cache starts no
// goroutine. Expired results are removed when others are written.
type cacheClock func() time.Time

func (now cacheClock) NowNano() int64 { return now().UnixNano() }

func (cacheClock) Tick(time.Duration) <-chan time.Time { return nil }

// check returns nil if the event exists, ErrEventUnknown if it does not, and errs.ErrUnavailable if
// the ticket service does not answer.
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

// checkAsync returns the cached result of check. exists is true if the event exists. If nothing is
// cached, exists is false, err is nil, and a lookup starts in the background.
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
	ctx = context.WithoutCancel(ctx) // loadResult sets a timeout
	c.work.Go(func() {
		_ = c.check(ctx, eventID) // cached for the next call
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.inBackground, eventID)
	})
	return false, nil
}

// wait returns when all lookups in the background have ended.
func (c *eventExistenceCache) wait() { c.work.Wait() }
