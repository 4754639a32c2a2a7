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
	// positiveTTL is how long ticket's word that an event exists is kept: none ever ceases to.
	positiveTTL = time.Minute
	// negativeTTL is how long any other answer is kept: the event may be made, or ticket be back, at any time.
	negativeTTL = time.Second
	// existenceTimeout bounds the question; visitors wait for it.
	existenceTimeout = 500 * time.Millisecond
	// existenceCacheSize bounds what is kept: anybody can make up ids.
	existenceCacheSize = 10_000
	// backgroundLimit bounds the questions under way for which nobody waits.
	backgroundLimit = 8
)

// eventExistenceCache says which events exist, so that an id that somebody made up gets no line. It is asked only where there is no line, and asks
// ticket once for all who come at the same time. It is safe for concurrent use.
type eventExistenceCache struct {
	now   func() time.Time
	ask   func(ctx context.Context, eventID string) error
	calls singleflight.Group

	mu           sync.Mutex
	verdicts     map[string]verdict
	inBackground map[string]bool // asked about without anybody waiting
	work         sync.WaitGroup
}

type verdict struct {
	err   error
	until time.Time
}

func newEventExistenceCache(now func() time.Time, ask func(context.Context, string) error) *eventExistenceCache {
	return &eventExistenceCache{now: now, ask: ask, verdicts: make(map[string]verdict), inBackground: make(map[string]bool)}
}

// has returns nil for an event that exists, ErrEventUnknown for one that does not, and errs.ErrUnavailable when ticket does not say.
func (r *eventExistenceCache) has(ctx context.Context, eventID string) error {
	if v, ok := r.kept(eventID); ok {
		return v.err
	}
	_, err, _ := r.calls.Do(eventID, func() (any, error) {
		// The answer is for everybody who waits for it, not only for whom this context is.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), existenceTimeout)
		defer cancel()
		err := r.ask(ctx, eventID)
		if err != nil && !errors.Is(err, ErrEventUnknown) {
			err = errs.ErrUnavailable.Wrap(err).WithRetry(negativeTTL)
		}
		r.keep(eventID, err)
		return nil, err
	})
	return err
}

// hint is has without waiting: it reports whether the event is known to exist, and asks in the background while nothing is known.
func (r *eventExistenceCache) hint(ctx context.Context, eventID string) (exists bool, err error) {
	if v, ok := r.kept(eventID); ok {
		return v.err == nil, v.err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inBackground[eventID] || len(r.inBackground) >= backgroundLimit {
		return false, nil
	}
	r.inBackground[eventID] = true
	ctx = context.WithoutCancel(ctx) // has bounds it
	r.work.Go(func() {
		_ = r.has(ctx, eventID) // kept for who asks next
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.inBackground, eventID)
	})
	return false, nil
}

// wait returns when no question is under way for which nobody waits.
func (r *eventExistenceCache) wait() { r.work.Wait() }

func (r *eventExistenceCache) kept(eventID string) (verdict, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.verdicts[eventID]
	return v, ok && r.now().Before(v.until)
}

func (r *eventExistenceCache) keep(eventID string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, life := r.now(), negativeTTL
	if err == nil {
		life = positiveTTL
	}
	if len(r.verdicts) >= existenceCacheSize {
		maps.DeleteFunc(r.verdicts, func(_ string, v verdict) bool { return !now.Before(v.until) })
	}
	if len(r.verdicts) < existenceCacheSize {
		r.verdicts[eventID] = verdict{err: err, until: now.Add(life)}
	}
}
