package line

import (
	"context"
	"errors"
	"time"
)

// Status finds each visitor's place and never newly enqueues; it counts as contact. It is the hot path: who waits or is inside costs plain
// reads, all of a call in one pipeline, and a write only when the last contact is old. Only whom those do not find, or whose token is of
// another epoch, is asked for by script (parked, admitted meanwhile, to be taken over after a loss). Answers come by position.
func (s *Service) Status(ctx context.Context, reqs []Request) []Answer {
	out := make([]Answer, len(reqs))
	s.perLine(ctx, len(reqs), func(i int) string { return reqs[i].EventID }, func(eventID string, at []int, err error) {
		if err == nil {
			err = s.statusLine(ctx, eventID, reqs, at, out)
		}
		if err != nil {
			for _, i := range at {
				out[i].Err = err
			}
		}
	})
	return out
}

// statusLine answers the requests at the given positions, all of one line.
func (s *Service) statusLine(ctx context.Context, eventID string, reqs []Request, positions []int, out []Answer) error {
	state, err := s.state(ctx, eventID)
	if err != nil {
		return err
	}
	if s.reopened(ctx, eventID) {
		if state, err = s.peek(ctx, eventID); err != nil {
			return err
		}
	}
	st := lineView{State: state, info: s.info(ctx, eventID)}
	var seen memberReads
	var decide []int
	for _, i := range positions {
		r := reqs[i]
		switch {
		case st.SaleStatus().Over():
			out[i] = s.answer(r, st.State, Outcome{}, st.info)
		case st.Exists():
			seen.add(i, MemberQuery{UserID: r.Caller.UserID, Holder: r.Entry != nil && r.Entry.Epoch == st.Epoch})
		case r.Ticket != "" || r.Entry != nil: // a line that was lost with all of Redis, perhaps
			decide = append(decide, i)
		default:
			out[i] = s.absent(ctx, r, st)
		}
	}
	lost, err := s.answerFromReads(ctx, eventID, reqs, st, &seen, out)
	if err != nil {
		for _, i := range seen.positions {
			out[i].Err = err
		}
	}
	s.askLine(ctx, eventID, reqs, append(decide, lost...), false, out)
	return nil
}

// absent answers who asks for a place in a line that is not there: in no set, or there is no such
// event at all. While ticket has not said so, the first is true anyway, so that nobody waits for
// ticket.
func (s *Service) absent(ctx context.Context, r Request, st lineView) Answer {
	exists, err := s.existence.hint(ctx, r.EventID)
	if errors.Is(err, ErrEventUnknown) {
		return Answer{Err: err}
	}
	if exists {
		s.cache.FirstContact(r.EventID) // so that ticket is asked about the sale, for the next answer
	}
	return s.answer(r, st.State, Outcome{}, st.info)
}

// memberReads is the plain reads of a line, and whose they are.
type memberReads struct {
	queries   []MemberQuery
	positions []int
	updates   []LastSeenUpdate
}

func (g *memberReads) add(position int, l MemberQuery) {
	g.queries = append(g.queries, l)
	g.positions = append(g.positions, position)
}

// answerFromReads answers whom plain reads find, and returns the positions of the others.
func (s *Service) answerFromReads(ctx context.Context, eventID string, reqs []Request, st lineView, g *memberReads, out []Answer) (decide []int, err error) {
	if len(g.queries) == 0 {
		return nil, nil
	}
	members, err := s.store.LookUp(ctx, eventID, g.queries)
	if err != nil {
		return nil, err
	}
	for k, i := range g.positions {
		r, l := reqs[i], g.queries[k]
		answer, ok := s.placeOf(r, st, l, members[k])
		if !ok {
			decide = append(decide, i)
			continue
		}
		out[i] = answer
		if s.stale(l, members[k], st.State) {
			g.updates = append(g.updates, LastSeenUpdate{UserID: l.UserID, Holder: l.Holder, At: st.Now, Poll: Poll(members[k].Ahead)})
		}
	}
	s.updateLastSeen(ctx, eventID, g.updates)
	return decide, nil
}

// placeOf turns what was read into an answer; false when only the script can say.
func (s *Service) placeOf(r Request, st lineView, l MemberQuery, g MemberState) (Answer, bool) {
	switch {
	case !g.Found:
		return Answer{}, false
	case !l.Holder:
		return Answer{Place: s.waiting(r, st.State, g.Ahead, g.Score, st.info)}, true
	}
	end := st.ends(g.End)
	if g.SlotID != r.Entry.SlotID || end <= st.Now {
		return Answer{}, false
	}
	return s.inside(r, st.State, Outcome{Standing: Inside, SlotID: g.SlotID, End: end}, st.info), true
}

// ends is when a slot really ends: with the sale, if that is sooner.
func (s State) ends(at int64) int64 {
	if s.SaleStatus().Over() {
		return min(at, s.Now)
	}
	if s.ClosesAt > 0 {
		return min(at, s.ClosesAt)
	}
	return at
}

// stale reports whether a contact has to be written: the last is older than a third of the deadline, or the advised poll grew, so that
// the deadline it implies is too short.
func (s *Service) stale(l MemberQuery, g MemberState, st State) bool {
	age := time.Duration(st.Now-g.LastSeen) * time.Millisecond
	if l.Holder {
		return age >= activeTouch
	}
	poll := Poll(g.Ahead)
	return poll > g.Poll || age >= s.rules.Patience(poll)/3
}

// updateLastSeen writes contacts. A failure costs nothing yet: the next poll comes long before the deadline.
func (s *Service) updateLastSeen(ctx context.Context, eventID string, updates []LastSeenUpdate) {
	if len(updates) == 0 {
		return
	}
	if err := s.store.UpdateLastSeen(ctx, eventID, updates); err != nil {
		s.log.WarnContext(ctx, "contacts not written", "event", eventID, "count", len(updates), "error", err)
	}
}

// lineView is what all items of one event have in common.
type lineView struct {
	State
	info Info
}

// state is what is known of a line, read anew when that is old. It counts as contact.
func (s *Service) state(ctx context.Context, eventID string) (State, error) {
	s.cache.Contact(eventID)
	if p := s.cache.find(eventID); p != nil {
		if st, ok := p.current(s.now()); ok {
			return st, nil
		}
	}
	return s.peek(ctx, eventID)
}

func (s *Service) peek(ctx context.Context, eventID string) (State, error) {
	st, err := s.store.Peek(ctx, eventID, s.cache.Snapshot(eventID))
	if err != nil {
		return State{}, err
	}
	s.cache.Observe(eventID, st)
	return st, nil
}
