// Package roomstate keeps the state of every waiting room of tier 1 in memory, so that polls cost no call: vwr streams a snapshot and then
// the changes. A broken stream leaves the last state in force.
package roomstate

import (
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// State is one event's waiting room at an instant. The zero value is that of an event that has none.
type State struct {
	Active bool
	// Started names the round: its start in µs since the epoch, also after its end.
	Started int64
	Serving int64
	Issued  int64
	// Rate is measured, Configured set, both in positions per second; Rate is 0 until there is a measurement.
	Rate, Configured float64
	// Sale is where the event's sale stands, empty while that is not known. Queue says it, not vwr.
	Sale string
	// ServingJSON and ETag are the answer of the poll that shared caches take, made once per change.
	ServingJSON []byte
	ETag        string
	// SaleJSON is Sale as the last member of an answer, with the comma before it; nothing when it is
	// empty.
	SaleJSON []byte

	heard bool // of the waiting room
}

// none is the state of every event without a waiting room.
var none = newState(State{})

func newState(s State) *State {
	s.SaleJSON = saleJSON(s.Sale)
	b := append(make([]byte, 0, 64+len(s.SaleJSON)), `{"servingCounter":`...)
	b = strconv.AppendInt(b, s.Serving, 10)
	b = append(b, `,"isActive":`...)
	b = strconv.AppendBool(b, s.Active)
	b = append(b, s.SaleJSON...)
	s.ServingJSON = append(b, '}')
	s.ETag = etag(&s)
	return &s
}

func saleJSON(sale string) []byte {
	if sale == "" {
		return nil
	}
	quoted, _ := json.Marshal(sale) // a string has a form in JSON
	return append([]byte(`,"saleStatus":`), quoted...)
}

func etag(s *State) string {
	tag := strconv.FormatInt(s.Started, 36) + "-" + strconv.FormatInt(s.Serving, 36) + "-" + strconv.FormatBool(s.Active)[:1]
	if s.Sale != "" {
		tag += "-" + url.QueryEscape(s.Sale)
	}
	return `"` + tag + `"`
}

// Waiting is the number of positions that are not served yet.
func (s *State) Waiting() int64 { return max(0, s.Issued-s.Serving) }

// merge is what is known of a room after hearing of next: an older round is news of the past, and
// within one round counters never go back and a room that was shut stays shut, whichever replica
// speaks.
func merge(old *State, next State) *State {
	switch {
	case next.Started < old.Started:
		return old
	case next.Started == old.Started && old.heard:
		next.Serving, next.Issued = max(next.Serving, old.Serving), max(next.Issued, old.Issued)
		next.Active = next.Active && old.Active
	}
	next.Sale, next.heard = old.Sale, true
	if next.Active == old.Active && next.Started == old.Started && next.Serving == old.Serving && next.Issued == old.Issued &&
		next.Rate == old.Rate && next.Configured == old.Configured {
		return old
	}
	return newState(next)
}

// selling is what is known of an event after hearing where its sale stands.
func selling(old *State, sale string) *State {
	if sale == old.Sale {
		return old
	}
	next := *old
	next.Sale = sale
	return newState(next)
}

// entry is one event's place; wanted says that somebody has asked for it while the stream was broken.
type entry struct {
	state  atomic.Pointer[State]
	wanted atomic.Bool
}

// Rooms is the state of every event. It is safe for concurrent use; reading takes no lock.
type Rooms struct {
	mu     sync.Mutex // writers
	events atomic.Pointer[map[string]*entry]
	// broken: the stream is down, so readers leave word of what they need.
	broken atomic.Bool
	ready  atomic.Bool
	// unknownEvents are the events that were asked for while the stream was broken and that have no place in events: at most refreshMax, as
	// anybody may ask for anything.
	unknownEvents map[string]bool
}

// New makes Rooms without any event. Until the first snapshot nothing is known, and a gateway must not answer (Ready).
func New() *Rooms {
	r := &Rooms{unknownEvents: make(map[string]bool)}
	r.events.Store(&map[string]*entry{})
	return r
}

// Off makes Rooms for a platform without tier 1: no room is ever active.
func Off() *Rooms {
	r := New()
	r.ready.Store(true)
	return r
}

// Get returns the state of an event, never nil. The State is shared: it must not be changed.
func (r *Rooms) Get(event string) *State {
	e := (*r.events.Load())[event]
	if r.broken.Load() {
		r.want(event, e)
	}
	if e == nil {
		return none
	}
	return e.state.Load()
}

// want leaves word of an event, for the next refresh.
func (r *Rooms) want(event string, e *entry) {
	if e != nil {
		if !e.wanted.Load() {
			e.wanted.Store(true)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unknownEvents) < refreshMax {
		r.unknownEvents[event] = true
	}
}

// Round is the active round of an event, 0 when none is active.
func (r *Rooms) Round(event string) int64 {
	if s := r.Get(event); s.Active {
		return s.Started
	}
	return 0
}

// Ready reports whether a first snapshot has arrived.
func (r *Rooms) Ready() bool { return r.ready.Load() }

// Connected reports whether changes arrive at the moment.
func (r *Rooms) Connected() bool { return r.ready.Load() && !r.broken.Load() }

// Apply takes a change that came another way than by the stream: what an operator did through this gateway is in force here at once.
func (r *Rooms) Apply(c *vwrv1.Counter) { r.apply([]*vwrv1.Counter{c}) }

func (r *Rooms) apply(counters []*vwrv1.Counter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, len(counters))
	for i, c := range counters {
		ids[i] = c.GetEventId()
	}
	for i, e := range r.entries(ids) {
		c := counters[i]
		e.state.Store(merge(e.state.Load(), State{
			Active: c.GetActive(), Started: c.GetRound(), Serving: c.GetServing(), Issued: c.GetIssued(),
			Rate: c.GetRate(), Configured: c.GetConfiguredRate(),
		}))
	}
}

// Sales takes where sales stand, by event; "" is one of which nothing is known.
func (r *Rooms) Sales(sales map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, sale := range sales {
		if sale != "" || (*r.events.Load())[id] != nil {
			ids = append(ids, id)
		}
	}
	for i, e := range r.entries(ids) {
		e.state.Store(selling(e.state.Load(), sales[ids[i]]))
	}
}

// entries are the places of events; one that has none gets it. The caller holds r.mu.
func (r *Rooms) entries(ids []string) []*entry {
	events, copied := *r.events.Load(), false
	all := make([]*entry, len(ids))
	for i, id := range ids {
		e := events[id]
		if e == nil {
			if !copied { // a new event is rare: readers keep the map they have
				events, copied = maps.Clone(events), true
			}
			e = &entry{}
			e.state.Store(none)
			events[id] = e
		}
		all[i] = e
	}
	if copied {
		r.events.Store(&events)
	}
	return all
}

// shut closes the rooms of events of which vwr knows nothing any more.
func (r *Rooms) shut(events map[string]bool) {
	for id := range events {
		e := (*r.events.Load())[id]
		if e == nil {
			continue
		}
		s := e.state.Load()
		r.apply([]*vwrv1.Counter{{
			EventId: id, Round: s.Started, Serving: s.Serving, Issued: s.Issued, Rate: s.Rate, ConfiguredRate: s.Configured,
		}})
	}
}

// wanted takes the events that readers have asked for since the last call, at most n, the known ones first.
func (r *Rooms) wanted(n int) []string {
	var ids []string
	for id, e := range *r.events.Load() {
		if len(ids) == n {
			break
		}
		if e.wanted.Swap(false) {
			ids = append(ids, id)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.unknownEvents {
		if len(ids) < n {
			ids = append(ids, id)
		}
	}
	clear(r.unknownEvents)
	return ids
}

// unlisted are the events with an active room that a snapshot does not hold.
func (r *Rooms) unlisted(snapshot []*vwrv1.Counter) []string {
	listed := make(map[string]bool, len(snapshot))
	for _, c := range snapshot {
		listed[c.GetEventId()] = true
	}
	var ids []string
	for id, e := range *r.events.Load() {
		if !listed[id] && e.state.Load().Active {
			ids = append(ids, id)
		}
	}
	return ids
}
