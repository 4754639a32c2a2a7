package roomstate

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// unknownEvents collects requested ids of events that Rooms has no entry for, while the stream is
// broken. Their number is limited, since anybody can request any id. Half of them are the first
// ones requested. The other half is a random sample of all further requests: it most likely
// contains an event that a crowd requests, however many ids are made up.
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

// drain removes and returns the collected events, at most refreshMax.
func (u *unknownEvents) drain() []string {
	all := append(slices.Collect(maps.Keys(u.first)), u.sampled...)
	*u = unknownEvents{}
	slices.Sort(all)
	return slices.Compact(all)
}

// takeRequested returns the events requested since the last call: at most refreshMax known ones,
// and separately as many unknown ones, so that neither kind delays the other.
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
	return known, r.unknown.drain()
}

// forgetAfter is how long an event without an active room and a sale status is kept after its last
// report: longer than replicas of the vwr and the queue service can disagree.
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
