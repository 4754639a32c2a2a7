package line

import (
	"context"
	"errors"
	"time"
)

// Status finds each visitor's place and never enqueues newcomers. It counts as contact. It is the
// hot path: waiters and slot holders cost plain reads, one pipeline per line, and a write only when
// the stored contact is old. The script runs only for visitors whom the reads do not find (parked,
// or admitted meanwhile) or whose token is of another epoch. Answers have the order of the requests.
func (s *Service) Status(ctx context.Context, reqs []Request) []Answer {
	out := make([]Answer, len(reqs))
	s.forEachLine(ctx, len(reqs), func(i int) string { return reqs[i].EventID }, func(eventID string, at []int) error {
		return s.statusLine(ctx, eventID, reqs, at, out)
	}, func(i int, err error) { out[i].Err = err })
	return out
}

// statusLine answers the requests at the given indexes, all of one line.
func (s *Service) statusLine(ctx context.Context, eventID string, reqs []Request, positions []int, out []Answer) error {
	state, err := s.currentState(ctx, eventID)
	if err != nil {
		return err
	}
	if s.reopened(ctx, eventID) {
		if state, err = s.readState(ctx, eventID); err != nil {
			return err
		}
	}
	st := lineView{State: state, title: s.titleOf(ctx, eventID)}
	var reads memberReads
	var undecided, absent []int
	for _, i := range positions {
		r := reqs[i]
		switch {
		case st.SaleStatus().Ended():
			out[i] = s.answerOf(r, st.State, Outcome{}, st.title)
		case st.Exists() && r.Entry != nil && r.Entry.Epoch != st.Epoch && st.AcceptsEpoch(r.Entry.Epoch):
			// The admission may be lost, and the data then has the holder in the queue again.
			undecided = append(undecided, i)
		case st.Exists():
			reads.add(i, MemberQuery{UserID: r.Visitor.UserID, Holder: r.Entry != nil && r.Entry.Epoch == st.Epoch})
		case r.Ticket != "" || r.Entry != nil: // the line may have been lost with all of Redis
			undecided = append(undecided, i)
		default:
			absent = append(absent, i)
		}
	}
	s.answerWithoutLine(ctx, eventID, reqs, st, absent, out)
	notFound, err := s.answerFromReads(ctx, eventID, reqs, st, &reads, out)
	if err != nil {
		for _, i := range reads.positions {
			out[i].Err = err
		}
	}
	s.checkInChunks(ctx, eventID, reqs, append(undecided, notFound...), false, out)
	return nil
}

// answerWithoutLine answers the requests at the given indexes, all for one missing line: that the
// visitors have no place, or, if that is known without waiting for ticket, that there is no event.
func (s *Service) answerWithoutLine(ctx context.Context, eventID string, reqs []Request, st lineView, positions []int, out []Answer) {
	if len(positions) == 0 {
		return
	}
	exists, err := s.existence.checkAsync(ctx, eventID)
	if exists {
		s.cache.FirstContact(eventID) // so that ticket is asked about the sale, for the next answer
	}
	for _, i := range positions {
		if errors.Is(err, ErrEventUnknown) {
			out[i] = Answer{Err: err}
		} else {
			out[i] = s.answerOf(reqs[i], st.State, Outcome{}, st.title)
		}
	}
}

// memberReads are the plain reads of a line, with the indexes of their requests.
type memberReads struct {
	queries   []MemberQuery
	positions []int
}

func (m *memberReads) add(position int, q MemberQuery) {
	m.queries = append(m.queries, q)
	m.positions = append(m.positions, position)
}

// answerFromReads answers the visitors found by plain reads, and returns the indexes of the others.
func (s *Service) answerFromReads(
	ctx context.Context, eventID string, reqs []Request, st lineView, reads *memberReads, out []Answer,
) (notFound []int, err error) {
	if len(reads.queries) == 0 {
		return nil, nil
	}
	members, err := s.store.LookUp(ctx, eventID, reads.queries)
	if err != nil {
		return nil, err
	}
	var updates []LastSeenUpdate
	for k, i := range reads.positions {
		q := reads.queries[k]
		answer, ok := s.placeOf(reqs[i], st, q, members[k])
		if !ok {
			notFound = append(notFound, i)
			continue
		}
		out[i] = answer
		if s.needsUpdate(q, members[k], st.State) {
			updates = append(updates, LastSeenUpdate{UserID: q.UserID, Holder: q.Holder, At: st.Now, Poll: Poll(members[k].Ahead)})
		}
	}
	s.updateLastSeen(ctx, eventID, updates)
	return notFound, nil
}

// placeOf converts a read to an answer; false when the script must decide.
func (s *Service) placeOf(r Request, st lineView, q MemberQuery, m MemberState) (Answer, bool) {
	switch {
	case !m.Found:
		return Answer{}, false
	case !q.Holder:
		return Answer{Place: s.waiterPlace(r, st.State, m.Ahead, m.Score, st.title)}, true
	}
	end := st.slotEnd(m.End)
	if m.SlotID != r.Entry.SlotID || end <= st.Now {
		return Answer{}, false
	}
	return s.holderAnswer(r, st.State, Outcome{Standing: Inside, SlotID: m.SlotID, End: end}, st.title), true
}

// slotEnd returns the effective end of a slot from its end in slotClock, as in lua/prelude.lua: the
// sale's end, if that is earlier.
func (s State) slotEnd(kept int64) int64 {
	at, slotClock := kept+s.Lost, s.slotClock()
	if kept > slotClock && (s.ShopAway() || at <= s.Now) {
		at = s.Now + kept - slotClock
	}
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
func (s *Service) needsUpdate(q MemberQuery, m MemberState, st State) bool {
	age := time.Duration(st.Now-m.LastSeen) * time.Millisecond
	if q.Holder {
		return age >= holderUpdateInterval
	}
	poll := Poll(m.Ahead)
	return poll > m.Poll || age >= s.rules.MaxSilence(poll)/3
}

// updateLastSeen writes contacts. Failures are harmless: the next poll precedes the deadline.
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
	title TitleAndArtist
}

// currentState returns a line's cached state, or reads one that is too old. It counts as contact.
func (s *Service) currentState(ctx context.Context, eventID string) (State, error) {
	s.cache.RecordContact(eventID)
	if p := s.cache.findEntry(eventID); p != nil {
		if st, ok := p.currentState(s.now()); ok {
			return st, nil
		}
	}
	st, err := s.readState(ctx, eventID)
	s.cache.RecordContact(eventID) // this replica may not have known the line
	return st, err
}

func (s *Service) readState(ctx context.Context, eventID string) (State, error) {
	st, err := s.store.Peek(ctx, eventID, s.cache.Snapshot(eventID))
	if err != nil {
		return State{}, err
	}
	s.cache.Observe(eventID, st)
	return st, nil
}
