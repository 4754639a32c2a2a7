package roomstate

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// unknownEvents collects ids that were requested while the stream was broken, of events that Rooms
// has no entry for. Anybody can request any id, so their number is bounded. Half of them are the
// first ones requested; the other half is a random sample of all further requests, so that an event
// that a crowd requests is most likely in it, however many ids are made up.
type unknownEvents struct {
	first    map[string]bool
	sampled  []string
	requests int
}

func (u *unknownEvents) add(event string) {
	if u.first == nil {
		u.first = make(map[string]bool, refreshMax/2)
	}
	if u.first[event] {
		return
	}
	if len(u.first) < refreshMax/2 {
		u.first[event] = true
		return
	}
	u.requests++
	if len(u.sampled) < refreshMax/2 {
		u.sampled = append(u.sampled, event)
	} else if i := rand.IntN(u.requests); i < len(u.sampled) { //nolint:gosec // which are fetched first is no secret
		u.sampled[i] = event
	}
}

// take removes and returns the collected events, at most refreshMax.
func (u *unknownEvents) take() []string {
	all := append(slices.Collect(maps.Keys(u.first)), u.sampled...)
	*u = unknownEvents{}
	slices.Sort(all)
	return slices.Compact(all)
}

// takeRequested returns the events that were requested since the last call: at most refreshMax known
// ones, and separately as many unknown ones, so that neither kind delays the other.
func (r *Rooms) takeRequested() (known, unknown []string) {
	for id, e := range *r.events.Load() {
		if len(known) == refreshMax {
			break
		}
		if e.requested.Swap(false) {
			known = append(known, id)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return known, r.unknown.take()
}

// forgetAfter is how long after its last report an event is kept that has neither an active room
// nor a known sale status: longer than replicas of vwr and queue may disagree.
const forgetAfter = time.Hour

// forgetEnded drops the events that have ended, so that they do not add up over months.
func (r *Rooms) forgetEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := maps.Clone(*r.events.Load())
	maps.DeleteFunc(kept, func(_ string, e *roomEntry) bool {
		s := e.state.Load()
		return !s.Active && s.Sale == "" && time.Since(e.reported) > forgetAfter
	})
	if len(kept) < len(*r.events.Load()) {
		r.events.Store(&kept)
	}
}
