// Package roomstate keeps the state of every tier-1 waiting room in memory, so that polls need no
// call. The vwr service streams all states, then changes. While the stream is broken, the last
// states apply.
package roomstate

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/spread"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// State is a snapshot of the waiting room of one event. The zero value is the state of an event
// without one.
type State struct {
	Active bool
	// Round identifies the round: its start in µs since 1970. It stays after the round's end.
	Round   int64
	Serving int64
	Issued  int64
	// Rate is measured, 0 until there is a measurement. Configured is set by operators. Both are in
	// positions per second.
	Rate, Configured float64
	// Stalled means that visitors wait but the serving counter has not moved for long. Paused means
	// that an operator has paused the event's line (tier 2).
	Stalled, Paused bool
	// Lobby is the lobby before the round's start.
	Lobby Lobby
	// Opening is what the crowd of the round waits for, after which its requests are spread.
	Opening spread.Instant
	// ProofOfWork is the proof of work that each visitor owes for a position, in bits; 0 = none.
	ProofOfWork int
	// SignIn means that only signed-in users get positions.
	SignIn bool
	// Next is where admitted visitors go; empty until the vwr service reports it.
	Next string
	// Sale is the sale status of the event, empty while it is unknown. It comes from the queue
	// service, not from the vwr service.
	Sale string
	// ServingJSON and ETag are the response to the poll that shared caches keep, made once per change.
	ServingJSON []byte
	ETag        []string
	// SaleJSON is Sale as the last field of a JSON object, after a comma; empty if Sale is empty.
	SaleJSON []byte

	reported bool // whether the vwr service has reported this room
}

// Lobby is the schedule and the progress of a round's lobby, in epoch milliseconds. The zero value is
// that of a round without one.
type Lobby struct {
	OpensAt, ClosesAt, StartsAt int64
	Sized                       bool // the number of entries is fixed: later arrivals get positions behind them
	Shuffled                    bool // each entry has its position
}

// NewLobby converts the lobby that the vwr service reports; nil means that the round has none.
func NewLobby(l *vwrv1.Lobby) Lobby {
	return Lobby{
		OpensAt: l.GetOpensAt(), ClosesAt: l.GetClosesAt(), StartsAt: l.GetStartsAt(), Sized: l.GetSized(), Shuffled: l.GetShuffled(),
	}
}

// openingOf converts the opening that the vwr service reports.
func openingOf(c *vwrv1.Counter) spread.Instant {
	return spread.Instant{Start: time.UnixMilli(c.GetOpenedAt()), Over: time.Duration(c.GetSpreadMs()) * time.Millisecond, Round: c.GetRound()}
}

// Pending reports whether the entries of the lobby have no positions yet.
func (l *Lobby) Pending() bool { return l.StartsAt != 0 && !l.Shuffled }

// AssignsPositions reports whether visitors get positions at a time in epoch milliseconds.
func (l *Lobby) AssignsPositions(nowMS int64) bool {
	return l.StartsAt == 0 || l.Sized && nowMS >= l.StartsAt
}

// noRoom is the state of every event without a waiting room.
var noRoom = newState(State{})

func newState(s State) *State {
	s.SaleJSON = saleJSON(s.Sale)
	b := append(make([]byte, 0, 64+len(s.SaleJSON)), `{"servingCounter":`...)
	b = strconv.AppendInt(b, s.Serving, 10)
	b = append(b, `,"isActive":`...)
	b = strconv.AppendBool(b, s.Active)
	b = append(b, s.SaleJSON...)
	s.ServingJSON = append(b, '}')
	s.ETag = []string{etagOf(&s)}
	return &s
}

func saleJSON(sale string) []byte {
	if sale == "" {
		return nil
	}
	quoted, _ := json.Marshal(sale) // a string always marshals
	return append([]byte(`,"saleStatus":`), quoted...)
}

func etagOf(s *State) string {
	tag := strconv.FormatInt(s.Round, 36) + "-" + strconv.FormatInt(s.Serving, 36) + "-" + strconv.FormatBool(s.Active)[:1]
	if s.Sale != "" {
		tag += "-" + url.QueryEscape(s.Sale)
	}
	return `"` + tag + `"`
}

// Waiting returns the number of positions that are not served yet.
func (s *State) Waiting() int64 { return max(0, s.Issued-s.Serving) }

// Halted reports whether the room serves nobody now, or the line after it admits nobody. Then waits
// are not estimated.
func (s *State) Halted() bool {
	return s.Stalled || s.Paused || s.Lobby.Pending() || s.Sale == "PAUSED" || s.Sale == "SOLD_OUT"
}

// mergeReport returns the state after old and a report, next, from any replica. It ignores a report
// of an older round. Within a round, counters never go back, and a deactivated room stays inactive.
func mergeReport(old *State, next State) *State {
	switch {
	case next.Round < old.Round:
		return old
	case next.Round == old.Round && old.reported:
		next.Serving, next.Issued = max(next.Serving, old.Serving), max(next.Issued, old.Issued)
		next.Active = next.Active && old.Active
		next.Lobby.Sized, next.Lobby.Shuffled = next.Lobby.Sized || old.Lobby.Sized, next.Lobby.Shuffled || old.Lobby.Shuffled
	}
	next.Sale, next.Paused, next.reported = old.Sale, old.Paused, true
	if next.Active == old.Active && next.Round == old.Round && next.Serving == old.Serving && next.Issued == old.Issued &&
		next.Rate == old.Rate && next.Configured == old.Configured && next.Lobby == old.Lobby && next.ProofOfWork == old.ProofOfWork &&
		next.Next == old.Next && next.SignIn == old.SignIn && next.Stalled == old.Stalled && next.Opening == old.Opening {
		return old
	}
	return newState(next)
}

func withSale(old *State, sale string) *State {
	if sale == old.Sale {
		return old
	}
	next := *old
	next.Sale = sale
	return newState(next)
}

// roomEntry has the state of one event. requested says that a caller of Get needed the state while
// the stream was broken.
type roomEntry struct {
	state     atomic.Pointer[State]
	requested atomic.Bool
	reported  time.Time // when the vwr or queue service last did so; guarded by Rooms.mu
}

// Rooms has the state of every event. It is safe for concurrent use; reads need no lock.
type Rooms struct {
	mu     sync.Mutex // serializes writers
	events atomic.Pointer[map[string]*roomEntry]
	// lost is closed and replaced by nil when the states are current again; nil: they are. While they
	// may be old, callers of Get record which events they need.
	lost  atomic.Pointer[chan struct{}]
	begun time.Time
	// heard is when the states were last current, or first known, as a time.Duration since begun.
	heard   atomic.Int64
	ready   atomic.Bool
	unknown unknownEvents
}

// New makes Rooms without any event. Until the first snapshot nothing is known, and the gateway
// must not serve requests (see Ready).
func New() *Rooms {
	r := &Rooms{begun: time.Now()}
	r.events.Store(&map[string]*roomEntry{})
	return r
}

// Disabled makes Rooms for a platform without tier 1: no room is ever active.
func Disabled() *Rooms {
	r := New()
	r.ready.Store(true)
	return r
}

// Get returns the state of an event, never nil. The State is shared: it must not be changed.
func (r *Rooms) Get(event string) *State {
	e := (*r.events.Load())[event]
	if r.lost.Load() != nil {
		r.recordRequest(event, e)
	}
	if e == nil {
		return noRoom
	}
	return e.state.Load()
}

// Known reports whether the vwr or the queue service has reported the event since the process
// started.
func (r *Rooms) Known(event string) bool { return (*r.events.Load())[event] != nil }

func (r *Rooms) recordRequest(event string, e *roomEntry) {
	if e != nil {
		if !e.requested.Load() {
			e.requested.Store(true)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown.add(event)
}

// LatestRound returns the latest known round of the waiting room of an event, 0 for none, and
// whether it is active.
func (r *Rooms) LatestRound(event string) (round int64, active bool) {
	s := r.Get(event)
	return s.Round, s.Active
}

// ActiveRound returns the active round of the waiting room of an event, 0 when none is active.
func (r *Rooms) ActiveRound(event string) int64 {
	if s := r.Get(event); s.Active {
		return s.Round
	}
	return 0
}

func (r *Rooms) Ready() bool { return r.ready.Load() }

// Connected reports whether the stream of a replica that reads its store is up, so that changes
// arrive.
func (r *Rooms) Connected() bool { return r.ready.Load() && r.lost.Load() == nil }

const (
	// doubtAfter is how long states count as current after a message, though the next is late.
	doubtAfter = 3 * time.Second
	// doubtfulFor is how long nobody without a token passes for lack of a room after the states were
	// last current. By then two streams were given up, so hardly any replica serves.
	doubtfulFor   = 2 * silenceTimeout
	settleTimeout = time.Second
	silentAfter   = 5 * time.Second // and from then on waits are not estimated
)

// Settle waits, up to a second, until it is certain whether the event has an active room: while the
// states are old, another replica of vwr may have activated one that is not known here. It fails
// with errs.ErrUnavailable if they stay old. After doubtfulFor it is assumed that no replica
// serves, so that none activates rooms either, and the last states apply again. Otherwise an outage
// of vwr would close the sales without a room. The price: a gateway that alone is cut off from vwr
// for longer lets visitors pass a room that was activated meanwhile.
func (r *Rooms) Settle(ctx context.Context, event string) error {
	lost := r.lost.Load()
	if lost == nil || r.ActiveRound(event) != 0 || r.silence() > doubtfulFor {
		return nil
	}
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-*lost:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return errs.ErrUnavailable.WithRetry(time.Second)
}

// silence returns for how long the states may have been old.
func (r *Rooms) silence() time.Duration {
	return time.Since(r.begun) - time.Duration(r.heard.Load())
}

// Silent reports whether nothing current has been heard for so long that operators are alerted.
func (r *Rooms) Silent() bool { return r.lost.Load() != nil && r.silence() > silentAfter }

// lose records that the states may be old from now on.
func (r *Rooms) lose() {
	over := make(chan struct{})
	r.lost.CompareAndSwap(nil, &over)
}

// setHeard starts the time of silence anew.
func (r *Rooms) setHeard() { r.heard.Store(int64(time.Since(r.begun))) }

// regain records that the states are current.
func (r *Rooms) regain() {
	r.setHeard()
	if over := r.lost.Swap(nil); over != nil {
		close(*over)
	}
}

// ApplyCounter stores the state that an operator's call through this gateway has set, without
// waiting for the stream.
func (r *Rooms) ApplyCounter(c *vwrv1.Counter) { r.applyCounters([]*vwrv1.Counter{c}) }

func (r *Rooms) applyCounters(counters []*vwrv1.Counter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]string, len(counters))
	for i, c := range counters {
		ids[i] = c.GetEventId()
	}
	for i, e := range r.entries(ids) {
		c, old := counters[i], e.state.Load()
		e.state.Store(mergeReport(old, State{
			Active: c.GetActive(), Round: c.GetRound(), Serving: c.GetServing(), Issued: c.GetIssued(),
			Rate: c.GetRate(), Configured: c.GetConfiguredRate(), Lobby: NewLobby(c.GetLobby()), ProofOfWork: int(c.GetProofOfWork()),
			Next: c.GetNext(), SignIn: c.GetSignIn(), Stalled: c.GetStalled(), Opening: openingOf(c),
		}))
	}
}

func (r *Rooms) SetSaleStatuses(sales map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, sale := range sales {
		if sale != "" || (*r.events.Load())[id] != nil {
			ids = append(ids, id)
		}
	}
	for i, e := range r.entries(ids) {
		e.state.Store(withSale(e.state.Load(), sales[ids[i]]))
	}
}

// SetPaused stores which lines are paused by an operator.
func (r *Rooms) SetPaused(lines map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, paused := range lines {
		if paused || (*r.events.Load())[id] != nil {
			ids = append(ids, id)
		}
	}
	for i, e := range r.entries(ids) {
		if s := *e.state.Load(); s.Paused != lines[ids[i]] {
			s.Paused = lines[ids[i]]
			e.state.Store(&s)
		}
	}
}

// entries returns the entries of events and creates those that are missing. The caller holds r.mu.
func (r *Rooms) entries(ids []string) []*roomEntry {
	events, copied := *r.events.Load(), false
	all := make([]*roomEntry, len(ids))
	for i, id := range ids {
		e := events[id]
		if e == nil {
			if !copied { // copy on write: readers keep the map they have
				events, copied = maps.Clone(events), true
			}
			e = &roomEntry{}
			e.state.Store(noRoom)
			events[id] = e
		}
		e.reported = time.Now()
		all[i] = e
	}
	if copied {
		r.events.Store(&events)
	}
	return all
}

// deactivate makes the rooms of events inactive, since the vwr service does not know them any more.
func (r *Rooms) deactivate(events map[string]bool) {
	for id := range events {
		e := (*r.events.Load())[id]
		if e == nil {
			continue
		}
		s := e.state.Load()
		r.applyCounters([]*vwrv1.Counter{{
			EventId: id, Round: s.Round, Serving: s.Serving, Issued: s.Issued, Rate: s.Rate, ConfiguredRate: s.Configured,
		}})
	}
}

// activeRoomsMissingIn returns the events whose room is active here and that a snapshot does not
// list.
func (r *Rooms) activeRoomsMissingIn(snapshot []*vwrv1.Counter) []string {
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
