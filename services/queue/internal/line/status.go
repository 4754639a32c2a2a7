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
	states := s.states(ctx, reqs, out)
	var seen sighting
	var decide []int
	for i, r := range reqs {
		st, ok := states[r.EventID]
		switch {
		case !ok: // answered with the error
		case st.Exists():
			seen.add(i, Look{EventID: r.EventID, UserID: r.Caller.UserID, Holder: r.Entry != nil && r.Entry.Epoch == st.Epoch})
		case r.Ticket != "" || r.Entry != nil: // a line that was lost with all of Redis, perhaps
			decide = append(decide, i)
		default:
			out[i] = s.absent(ctx, r, st)
		}
	}
	decide = append(decide, s.look(ctx, reqs, states, &seen, out)...)
	s.ask(ctx, reqs, decide, false, out)
	return out
}

// absent answers who asks for a place in a line that is not there: in no set, or there is no such event at all. While ticket does not
// say, the first is true anyway.
func (s *Service) absent(ctx context.Context, r Request, st scene) Answer {
	if err := s.roll.has(ctx, r.EventID); errors.Is(err, ErrEventUnknown) {
		return Answer{Err: err}
	}
	return s.answer(r, st.State, Outcome{}, st.info)
}

// sighting is the plain reads of a batch, and whose they are.
type sighting struct {
	looks     []Look
	positions []int
	touches   []Touch
}

func (g *sighting) add(position int, l Look) {
	g.looks = append(g.looks, l)
	g.positions = append(g.positions, position)
}

// look answers whom plain reads find, and returns the positions of the others.
func (s *Service) look(ctx context.Context, reqs []Request, states map[string]scene, g *sighting, out []Answer) (decide []int) {
	if len(g.looks) == 0 {
		return nil
	}
	sights, err := s.store.Look(ctx, g.looks)
	if err != nil {
		for _, i := range g.positions {
			out[i].Err = err
		}
		return nil
	}
	for k, i := range g.positions {
		r, st, l := reqs[i], states[reqs[i].EventID], g.looks[k]
		answer, ok := s.sighted(r, st, l, sights[k])
		if !ok {
			decide = append(decide, i)
			continue
		}
		out[i] = answer
		if s.stale(l, sights[k], st.State) {
			g.touches = append(g.touches, Touch{
				EventID: l.EventID, UserID: l.UserID, Holder: l.Holder, At: st.Now, Poll: Poll(sights[k].Ahead),
			})
		}
	}
	s.touch(ctx, g.touches)
	return decide
}

// sighted turns what was read into an answer; false when only the script can say.
func (s *Service) sighted(r Request, st scene, l Look, g Sight) (Answer, bool) {
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
	if s.ClosesAt > 0 {
		return min(at, s.ClosesAt)
	}
	return at
}

// stale reports whether a contact has to be written: the last is older than a third of the deadline, or the advised poll grew, so that
// the deadline it implies is too short.
func (s *Service) stale(l Look, g Sight, st State) bool {
	age := time.Duration(st.Now-g.Touched) * time.Millisecond
	if l.Holder {
		return age >= activeTouch
	}
	poll := Poll(g.Ahead)
	return poll > g.Poll || age >= s.rules.Patience(poll)/3
}

// touch writes contacts. A failure costs nothing yet: the next poll comes long before the deadline.
func (s *Service) touch(ctx context.Context, touches []Touch) {
	if len(touches) == 0 {
		return
	}
	if err := s.store.Touch(ctx, touches); err != nil {
		s.log.WarnContext(ctx, "contacts not written", "count", len(touches), "error", err)
	}
}

// scene is what all items of one event have in common.
type scene struct {
	State
	info Info
}

// states is the current state of every event in the batch; a line that cannot be read fails its items.
func (s *Service) states(ctx context.Context, reqs []Request, out []Answer) map[string]scene {
	states := make(map[string]scene)
	for eventID, at := range byEvent(all(len(reqs)), func(i int) string { return reqs[i].EventID }) {
		st, err := s.state(ctx, eventID)
		if err != nil {
			for _, i := range at {
				out[i].Err = err
			}
			continue
		}
		states[eventID] = scene{State: st, info: s.info(ctx, eventID)}
	}
	return states
}

// state is what is known of a line, read anew when that is old. It counts as contact.
func (s *Service) state(ctx context.Context, eventID string) (State, error) {
	s.book.Contact(eventID)
	if p := s.book.find(eventID); p != nil {
		if st, ok := p.current(s.now()); ok {
			return st, nil
		}
	}
	return s.peek(ctx, eventID)
}

func (s *Service) peek(ctx context.Context, eventID string) (State, error) {
	st, err := s.store.Peek(ctx, eventID, s.book.Recall(eventID))
	if err != nil {
		return State{}, err
	}
	s.book.Learn(eventID, st)
	return st, nil
}
