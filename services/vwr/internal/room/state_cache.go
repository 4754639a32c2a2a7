package room

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxReadAge is how old the last read of the counters may be. A failing read is noticed by the check
// of readiness, and sent with the next heartbeat, within another second.
const maxReadAge = 2 * time.Second

// State is the cached state of one event.
type State struct {
	Counters

	Rate    float64 // the measured number of positions per second; 0 until measured
	Stalled bool    // visitors wait although the counter has not moved for long

	rev uint64 // the cache's revision at this event's last change
}

// StateCache has what a replica knows of every event. It serves visitors' polls and the gateways'
// streams. It merges results of reads and writes in whatever order they arrive; within a round no
// counter decreases.
type StateCache struct {
	mu      sync.Mutex
	events  map[string]State
	idle    map[string]struct{} // closed rooms whose state was not read since then, at ForgetClosed
	rev     uint64
	changed chan struct{} // closed and replaced at every change
	ready   chan struct{} // closed after the first read of the registry of active events
	readAt  time.Time     // of the last such read
}

// NewStateCache returns an empty cache.
func NewStateCache() *StateCache {
	return &StateCache{events: make(map[string]State), idle: make(map[string]struct{}), changed: make(chan struct{}), ready: make(chan struct{})}
}

// Merge merges counters that were read or written, and returns the event's cached state.
func (sc *StateCache) Merge(c Counters) State {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	delete(sc.idle, c.EventID)
	next, known := sc.events[c.EventID]
	if !known {
		return sc.storeState(State{Counters: c})
	}
	if c.Round > next.Round || c.Round == next.Round && c.Settings != next.Settings {
		next.Rate, next.Stalled = 0, false
	}
	next.Counters = mergeCounters(next.Counters, c)
	return sc.storeState(next)
}

// mergeCounters combines two reads of one event. Within a round the counters only grow, and a
// closed room stays closed.
func mergeCounters(old, c Counters) Counters {
	if c.Round < old.Round {
		return old
	}
	if c.Round == old.Round {
		c.Active = c.Active && old.Active
		c.Issued = max(c.Issued, old.Issued)
		c.Serving = max(c.Serving, old.Serving)
		c.Claimed = max(c.Claimed, old.Claimed)
		c.Lobby = c.Lobby.merge(old.Lobby)
	}
	return c
}

// MarkDeleted closes the room of an event that the store no longer has.
func (sc *StateCache) MarkDeleted(eventID string) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if st, known := sc.events[eventID]; known {
		st.Active = false
		sc.storeState(st)
	}
}

// ForgetClosed drops the closed rooms whose state was not read since its last call, so that memory
// does not grow with every event that ever had a room. The next visitor of such a room causes a
// read. Two calls must be further apart than the longest read: otherwise a read that began while
// the room was open could restore it as open.
func (sc *StateCache) ForgetClosed() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for id, st := range sc.events {
		if st.Active {
			continue
		}
		if _, idle := sc.idle[id]; idle {
			delete(sc.events, id)
			delete(sc.idle, id)
		} else {
			sc.idle[id] = struct{}{}
		}
	}
}

// SetRate sets the measured rate of an event, in positions per second.
func (sc *StateCache) SetRate(eventID string, round Round, rate float64) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if st, known := sc.events[eventID]; known && st.Round == round {
		st.Rate = rate
		sc.storeState(st)
	}
}

// SetStalled records whether the counter of an event has not moved for long.
func (sc *StateCache) SetStalled(eventID string, round Round, stalled bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if st, known := sc.events[eventID]; known && st.Round == round {
		st.Stalled = stalled
		sc.storeState(st)
	}
}

// RecordIssued records a position that this replica has issued, before the next read shows it.
func (sc *StateCache) RecordIssued(r Record) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if st, known := sc.events[r.EventID]; known && st.Round == r.Round && st.Issued < r.Position {
		st.Issued = r.Position
		sc.storeState(st)
	}
}

// storeState stores a state and notifies the watchers, unless the same state is stored already.
func (sc *StateCache) storeState(st State) State {
	if old, known := sc.events[st.EventID]; known && st == old {
		return old
	}
	sc.rev++
	st.rev = sc.rev
	sc.events[st.EventID] = st
	close(sc.changed)
	sc.changed = make(chan struct{})
	return st
}

func (sc *StateCache) Get(eventID string) (State, bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	st, ok := sc.events[eventID]
	return st, ok
}

func (sc *StateCache) All() []State {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return slices.SortedFunc(maps.Values(sc.events), compareEventIDs)
}

func (sc *StateCache) ActiveIDs() []string {
	var ids []string
	for _, st := range sc.All() {
		if st.Active {
			ids = append(ids, st.EventID)
		}
	}
	return ids
}

// MarkLoaded records that the cache has the current state of every active event.
func (sc *StateCache) MarkLoaded() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.readAt = time.Now()
	if !sc.Ready() {
		close(sc.ready)
	}
}

func (sc *StateCache) Ready() bool {
	select {
	case <-sc.ready:
		return true
	default:
		return false
	}
}

// Stale reports whether the counters were not read in the last 2 s, so that other replicas may have
// activated rooms or moved counters meanwhile.
func (sc *StateCache) Stale() bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return time.Since(sc.readAt) > maxReadAge
}

// Watch returns a Watcher whose first update has the state of every event. It need not be closed.
func (sc *StateCache) Watch() *Watcher { return &Watcher{cache: sc} }

// Watcher returns the changes of a cache. It is not safe for concurrent use.
type Watcher struct {
	cache *StateCache
	rev   uint64
	begun bool
}

// Next waits for changes, and returns the current state of each event that has changed since the
// last call. Several changes of an event become one. The first call waits until the cache is
// loaded, and returns every event (maybe none). It fails when ctx ends.
func (w *Watcher) Next(ctx context.Context) ([]State, error) {
	if !w.begun {
		select {
		case <-w.cache.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for {
		states, changed := w.changesSinceLast()
		if len(states) > 0 || !w.begun {
			w.begun = true
			return states, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (w *Watcher) changesSinceLast() ([]State, <-chan struct{}) {
	sc := w.cache
	sc.mu.Lock()
	defer sc.mu.Unlock()
	var states []State
	for _, st := range sc.events {
		if st.rev > w.rev {
			states = append(states, st)
		}
	}
	w.rev = sc.rev
	slices.SortFunc(states, compareEventIDs)
	return states, sc.changed
}

func compareEventIDs(a, b State) int { return cmp.Compare(a.EventID, b.EventID) }
