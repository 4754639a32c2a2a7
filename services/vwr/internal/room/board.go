package room

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// State is one event as a replica remembers it.
type State struct {
	Counters

	// Rate is the measured number of positions per second; 0 until measured.
	Rate float64

	rev uint64 // of the board's last change of this event
}

// Board is a replica's memory of every event: what visitors' polls are answered from, and what the gateways are told. It merges reads
// and writes in whatever order they arrive, so that within a round no counter ever goes back.
type Board struct {
	mu      sync.Mutex
	events  map[string]State
	rev     uint64
	changed chan struct{} // closed and replaced at every change
	loaded  bool
	ready   chan struct{} // closed once the registry of active events was read
}

// NewBoard makes an empty board.
func NewBoard() *Board {
	return &Board{events: make(map[string]State), changed: make(chan struct{}), ready: make(chan struct{})}
}

// Apply merges what was read or written of an event, and returns what the board now holds.
func (b *Board) Apply(c Counters) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.events[c.EventID]
	next := State{Counters: c}
	if known {
		next = old
		next.Counters = merge(old.Counters, c)
		if next.Round != old.Round {
			next.Rate = 0
		}
	}
	return b.put(old, next, known)
}

// merge is the later of two views of one event. Within a round the numbers only grow and the room, once closed, stays closed.
func merge(old, c Counters) Counters {
	if c.Round < old.Round {
		return old
	}
	if c.Round == old.Round {
		c.Active = c.Active && old.Active
		c.Issued = max(c.Issued, old.Issued)
		c.Serving = max(c.Serving, old.Serving)
		c.Claimed = max(c.Claimed, old.Claimed)
	}
	return c
}

// Gone notes that the store holds nothing of an event any more: its room is closed.
func (b *Board) Gone(eventID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, known := b.events[eventID]; known {
		next := old
		next.Active = false
		b.put(old, next, known)
	}
}

// Measured notes the measured rate of an event, in positions per second.
func (b *Board) Measured(eventID string, round Round, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.events[eventID]
	if !known || old.Round != round {
		return
	}
	next := old
	next.Rate = rate
	b.put(old, next, known)
}

// Gave notes a position given out by this replica, ahead of the next read.
func (b *Board) Gave(r Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old, known := b.events[r.EventID]
	if !known || old.Round != r.Round || old.Issued >= r.Position {
		return
	}
	next := old
	next.Issued = r.Position
	b.put(old, next, known)
}

func (b *Board) put(old, next State, known bool) State {
	if known && next == old {
		return old
	}
	b.rev++
	next.rev = b.rev
	b.events[next.EventID] = next
	close(b.changed)
	b.changed = make(chan struct{})
	return next
}

// Get returns one event's state.
func (b *Board) Get(eventID string) (State, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st, ok := b.events[eventID]
	return st, ok
}

// All returns every event, in the order of their ids.
func (b *Board) All() []State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.events), byEvent)
}

// Active returns the ids of the active events, in their order.
func (b *Board) Active() []string {
	var ids []string
	for _, st := range b.All() {
		if st.Active {
			ids = append(ids, st.EventID)
		}
	}
	return ids
}

// Loaded notes that every active event is on the board.
func (b *Board) Loaded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.loaded {
		b.loaded = true
		close(b.ready)
	}
}

// Ready reports whether every active event has been on the board once.
func (b *Board) Ready() bool {
	select {
	case <-b.ready:
		return true
	default:
		return false
	}
}

// Watch follows the board from its beginning. A watcher has nothing to close.
func (b *Board) Watch() *Watcher { return &Watcher{board: b} }

// Watcher hands out changes. Not safe for concurrent use.
type Watcher struct {
	board *Board
	rev   uint64
	begun bool
}

// Next waits for changes and returns the events that have changed since the last call, each once, as they are now: whatever happened in
// between is coalesced. The first call returns every event (maybe none), once the board is loaded. It fails when ctx ends.
func (w *Watcher) Next(ctx context.Context) ([]State, error) {
	if !w.begun {
		select {
		case <-w.board.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for {
		states, changed := w.since()
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

func (w *Watcher) since() ([]State, <-chan struct{}) {
	b := w.board
	b.mu.Lock()
	defer b.mu.Unlock()
	var states []State
	for _, st := range b.events {
		if st.rev > w.rev {
			states = append(states, st)
		}
	}
	w.rev = b.rev
	slices.SortFunc(states, byEvent)
	return states, b.changed
}

func byEvent(a, b State) int {
	switch {
	case a.EventID < b.EventID:
		return -1
	case a.EventID > b.EventID:
		return 1
	default:
		return 0
	}
}
