package line

import (
	"context"
	"errors"
	"time"
)

// Status finds each visitor's place and never enqueues newcomers. It counts as contact. It is the
// hot path: waiters and slot holders cost plain reads, one pipeline per line, and a write only when
// the stored contact is old. The script runs only for visitors whom the reads do not find or whose
// token is of another epoch (parked, admitted meanwhile, or to be taken over after a loss). Answers
// have the order of the requests.
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

// statusLine answers the requests at the given indexes, all of one line.
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
	var decide, absent []int
	for _, i := range positions {
		r := reqs[i]
		switch {
		case st.SaleStatus().Ended():
			out[i] = s.answer(r, st.State, Outcome{}, st.info)
		case st.Exists() && r.Entry != nil && r.Entry.Epoch != st.Epoch && st.AcceptsEpoch(r.Entry.Epoch):
			// The admission may be lost, and the data then has the holder in the queue again.
			decide = append(decide, i)
		case st.Exists():
			seen.add(i, MemberQuery{UserID: r.Caller.UserID, Holder: r.Entry != nil && r.Entry.Epoch == st.Epoch})
		case r.Ticket != "" || r.Entry != nil: // the line may have been lost with all of Redis
			decide = append(decide, i)
		default:
			absent = append(absent, i)
		}
	}
	s.answerWithoutLine(ctx, eventID, reqs, st, absent, out)
	lost, err := s.answerFromReads(ctx, eventID, reqs, st, &seen, out)
	if err != nil {
		for _, i := range seen.positions {
			out[i].Err = err
		}
	}
	s.checkInChunks(ctx, eventID, reqs, append(decide, lost...), false, out)
	return nil
}

// answerWithoutLine answers the requests at the given indexes, all for one missing line: the
// visitors are in no set, or the event does not exist. It does not wait for ticket, since the first
// holds in both cases.
func (s *Service) answerWithoutLine(ctx context.Context, eventID string, reqs []Request, st lineView, positions []int, out []Answer) {
	if len(positions) == 0 {
		return
	}
	exists, err := s.existence.hasAsync(ctx, eventID)
	if exists {
		s.cache.FirstContact(eventID) // so that ticket is asked about the sale, for the next answer
	}
	for _, i := range positions {
		if errors.Is(err, ErrEventUnknown) {
			out[i] = Answer{Err: err}
		} else {
			out[i] = s.answer(reqs[i], st.State, Outcome{}, st.info)
		}
	}
}

// memberReads are the plain reads of a line, with the indexes of their requests.
type memberReads struct {
	queries   []MemberQuery
	positions []int
	updates   []LastSeenUpdate
}

func (g *memberReads) add(position int, l MemberQuery) {
	g.queries = append(g.queries, l)
	g.positions = append(g.positions, position)
}

// answerFromReads answers the visitors found by plain reads, and returns the indexes of the others.
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
		if s.needsUpdate(l, members[k], st.State) {
			g.updates = append(g.updates, LastSeenUpdate{UserID: l.UserID, Holder: l.Holder, At: st.Now, Poll: Poll(members[k].Ahead)})
		}
	}
	s.updateLastSeen(ctx, eventID, g.updates)
	return decide, nil
}

// placeOf converts a read to an answer; false when the script must decide.
func (s *Service) placeOf(r Request, st lineView, l MemberQuery, g MemberState) (Answer, bool) {
	switch {
	case !g.Found:
		return Answer{}, false
	case !l.Holder:
		return Answer{Place: s.waiterPlace(r, st.State, g.Ahead, g.Score, st.info)}, true
	}
	end := st.slotEnd(g.End)
	if g.SlotID != r.Entry.SlotID || end <= st.Now {
		return Answer{}, false
	}
	return s.holderAnswer(r, st.State, Outcome{Standing: Inside, SlotID: g.SlotID, End: end}, st.info), true
}

// slotEnd returns the effective end of a slot: the sale's end, if that is earlier.
func (s State) slotEnd(at int64) int64 {
	if s.SaleStatus().Ended() {
		return min(at, s.Now)
	}
	if s.ClosesAt > 0 {
		return min(at, s.ClosesAt)
	}
	return at
}

// needsUpdate reports whether a contact must be written: the stored one is older than a third of
// the deadline, or the poll interval grew, so that the stored deadline is too short.
func (s *Service) needsUpdate(l MemberQuery, g MemberState, st State) bool {
	age := time.Duration(st.Now-g.LastSeen) * time.Millisecond
	if l.Holder {
		return age >= holderUpdateInterval
	}
	poll := Poll(g.Ahead)
	return poll > g.Poll || age >= s.rules.MaxSilence(poll)/3
}

// updateLastSeen writes contacts. A failure is harmless, since the next poll comes long before the
// deadline.
func (s *Service) updateLastSeen(ctx context.Context, eventID string, updates []LastSeenUpdate) {
	if len(updates) == 0 {
		return
	}
	if err := s.store.UpdateLastSeen(ctx, eventID, updates); err != nil {
		s.log.WarnContext(ctx, "contacts not written", "event", eventID, "count", len(updates), "error", err)
	}
}

// lineView is the data common to all items of one event.
type lineView struct {
	State
	info TitleAndArtist
}

// state returns the cached state of a line, or reads it when it is too old. It counts as contact.
func (s *Service) state(ctx context.Context, eventID string) (State, error) {
	s.cache.Contact(eventID)
	if p := s.cache.find(eventID); p != nil {
		if st, ok := p.current(s.now()); ok {
			return st, nil
		}
	}
	st, err := s.peek(ctx, eventID)
	s.cache.Contact(eventID) // this replica may not have known the line
	return st, err
}

func (s *Service) peek(ctx context.Context, eventID string) (State, error) {
	st, err := s.store.Peek(ctx, eventID, s.cache.Snapshot(eventID))
	if err != nil {
		return State{}, err
	}
	s.cache.Observe(eventID, st)
	return st, nil
}
