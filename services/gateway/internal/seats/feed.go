package seats

import (
	"context"
	"sync"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/sse"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// How many earlier states of an event are kept: those of two minutes of a sale, or as many as fit
// into pastBytes. A reader who connects again gets only the changes since one of them.
const (
	pastStates = 240
	pastBytes  = 1 << 20
)

// seatFeed has the present state of an event's seats for all its readers. Each reader asks for the
// changes since its own version, so a slow reader needs no queue.
type seatFeed struct {
	event string

	// Guarded by Hub.mu.
	stop    context.CancelFunc // ends the reading
	readers int
	caller  *commonv1.Caller // the latest reader, on whose behalf the seats are read
	fresh   chan struct{}    // closed after the first read since the reading was started
	forget  *time.Timer      // runs while there are no readers

	mu      sync.RWMutex
	current *seatChange
	readAt  time.Time
	arrived func() // closes fresh
	failure error
	changed chan struct{} // closed and replaced at each change
	past    []State       // the states before the present one, oldest first
}

// seatChange is the present state of an event's seats, with the frames that readers get.
type seatChange struct {
	State

	seq int64
	// changes is the frame for readers who have the state before; nil: there is none. whole is the
	// frame for all other readers.
	changes, whole *sse.Frame
}

func newFeed(event string) *seatFeed { return &seatFeed{event: event, changed: make(chan struct{})} }

// awaitRead makes new readers wait until the seats were read again, since the present state may be
// old. The caller holds Hub.mu.
func (f *seatFeed) awaitRead() {
	fresh := make(chan struct{})
	f.fresh = fresh
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readAt = time.Time{}
	f.arrived = sync.OnceFunc(func() { close(fresh) })
}

// publish makes s, which was read at the time at, the present state. Only the feed's own loop calls
// it.
func (f *seatFeed) publish(s State, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.arrived()
	f.readAt = at
	next := &seatChange{State: s, seq: 1}
	switch old := f.current; {
	case old == nil:
	case old.Version == s.Version:
		return
	default:
		next.seq = old.seq + 1
		f.keepPast(old.State)
	}
	next.whole = sse.Event("reset", s.Version, s.JSON)
	if n := len(f.past); n > 0 {
		next.changes = next.frameSince(&f.past[n-1])
	}
	f.current = next
	f.wakeReaders()
}

// keepPast adds a state to the past ones. It drops the JSON, which only the present state needs.
func (f *seatFeed) keepPast(s State) {
	s.JSON = nil
	f.past = append(f.past, s)
	for len(f.past) > pastStates || len(f.past)*len(s.Seats.GetBitmap()) > pastBytes {
		f.past[0] = State{} // to be collected
		f.past = f.past[1:]
	}
}

// wakeReaders wakes all readers. The caller holds f.mu.
func (f *seatFeed) wakeReaders() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// mustEnd reports whether the feed must end because a read has failed with err: the event cannot be
// read at all, or the present state is too old.
func (f *seatFeed) mustEnd(err error, now time.Time) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return errs.From(err).Kind.CausedByClient() || now.Sub(f.readAt) >= staleAfter
}

// endWith ends the feed. All readers get the error.
func (f *seatFeed) endWith(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
	f.arrived()
	f.wakeReaders()
}

// Wait returns when Take has seats to return, or with the error if they cannot be read.
func (r *Reader) Wait(ctx context.Context) error {
	select {
	case <-r.fresh:
		r.feed.mu.RLock()
		defer r.feed.mu.RUnlock()
		return r.feed.failure
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Take returns the frame that brings the browser to the present version, nil if it has that
// version, and a channel that is closed at the next change. After an error the stream must end.
func (r *Reader) Take() (*sse.Frame, <-chan struct{}, error) {
	f := r.feed
	f.mu.RLock()
	defer f.mu.RUnlock()
	now := f.current
	switch {
	case f.failure != nil:
		return nil, nil, f.failure
	case r.version == now.Version:
		return nil, f.changed, nil
	}
	frame, kind := now.whole, kindWhole
	for i := len(f.past) - 1; i >= 0; i-- {
		if f.past[i].Version != r.version {
			continue
		}
		changes := now.changes
		if i < len(f.past)-1 {
			changes = now.frameSince(&f.past[i])
		}
		if changes != nil {
			frame, kind = changes, kindChanges
		}
		break
	}
	r.version = now.Version
	framesTotal.WithLabelValues(kind).Inc()
	return frame, f.changed, nil
}
