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
	// existsFor is how long ticket's word that an event exists is kept: none ever ceases to.
	existsFor = time.Minute
	// doubtFor is how long any other answer is kept: the event may be made, or ticket be back, at any time.
	doubtFor = time.Second
	// rollTimeout bounds the question; visitors wait for it.
	rollTimeout = 500 * time.Millisecond
	// rollSize bounds what is kept: anybody can make up ids.
	rollSize = 10_000
	// rollBehind bounds the questions under way for which nobody waits.
	rollBehind = 8
)

// roll says which events exist, so that an id that somebody made up gets no line. It is asked only where there is no line, and asks
// ticket once for all who come at the same time. It is safe for concurrent use.
type roll struct {
	now   func() time.Time
	ask   func(ctx context.Context, eventID string) error
	calls singleflight.Group

	mu       sync.Mutex
	verdicts map[string]verdict
	behind   map[string]bool // asked about without anybody waiting
	work     sync.WaitGroup
}

type verdict struct {
	err   error
	until time.Time
}

func newRoll(now func() time.Time, ask func(context.Context, string) error) *roll {
	return &roll{now: now, ask: ask, verdicts: make(map[string]verdict), behind: make(map[string]bool)}
}

// has returns nil for an event that exists, ErrEventUnknown for one that does not, and errs.ErrUnavailable when ticket does not say.
func (r *roll) has(ctx context.Context, eventID string) error {
	if v, ok := r.kept(eventID); ok {
		return v.err
	}
	_, err, _ := r.calls.Do(eventID, func() (any, error) {
		// The answer is for everybody who waits for it, not only for whom this context is.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollTimeout)
		defer cancel()
		err := r.ask(ctx, eventID)
		if err != nil && !errors.Is(err, ErrEventUnknown) {
			err = errs.ErrUnavailable.Wrap(err).WithRetry(doubtFor)
		}
		r.keep(eventID, err)
		return nil, err
	})
	return err
}

// hint is has without waiting: nil while the answer is not known, which is then asked for behind
// the caller's back.
func (r *roll) hint(ctx context.Context, eventID string) error {
	if v, ok := r.kept(eventID); ok {
		return v.err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.behind[eventID] || len(r.behind) >= rollBehind {
		return nil
	}
	r.behind[eventID] = true
	ctx = context.WithoutCancel(ctx) // has bounds it
	r.work.Go(func() {
		_ = r.has(ctx, eventID) // kept for who asks next
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.behind, eventID)
	})
	return nil
}

// wait returns when no question is under way for which nobody waits.
func (r *roll) wait() { r.work.Wait() }

func (r *roll) kept(eventID string) (verdict, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.verdicts[eventID]
	return v, ok && r.now().Before(v.until)
}

func (r *roll) keep(eventID string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, life := r.now(), doubtFor
	if err == nil {
		life = existsFor
	}
	if len(r.verdicts) >= rollSize {
		maps.DeleteFunc(r.verdicts, func(_ string, v verdict) bool { return !now.Before(v.until) })
	}
	if len(r.verdicts) < rollSize {
		r.verdicts[eventID] = verdict{err: err, until: now.Add(life)}
	}
}
