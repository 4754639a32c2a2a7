package line

import (
	"context"
	"errors"
	"time"
)

// Status returns each visitor's place or slot, in the order of the requests. It counts as a
// contact, and adds nobody to the line. It is the most frequent call, so it is cheap: one pipeline
// of reads per line, and a write only if a stored contact is old. The check script runs only for
// visitors whom the reads do not find (parked, just admitted) or with a token of another epoch.
func (s *Service) Status(ctx context.Context, reqs []PlaceRequest) []PlaceAnswer {
	out := make([]PlaceAnswer, len(reqs))
	s.forEachLine(ctx, len(reqs), func(i int) string { return reqs[i].EventID }, func(eventID string, at []int) error {
		return s.answerLine(ctx, eventID, reqs, at, out)
	}, func(i int, err error) { out[i].Err = err })
	return out
}

// Heartbeat is Status without questions about entitlements. It modifies reqs.
func (s *Service) Heartbeat(ctx context.Context, reqs []PlaceRequest) []PlaceAnswer {
	for i := range reqs {
		reqs[i].heartbeat = true
	}
	return s.Status(ctx, reqs)
}

// answerLine stores the answers to reqs at the given indexes, all of one line, in out.
func (s *Service) answerLine(ctx context.Context, eventID string, reqs []PlaceRequest, indexes []int, out []PlaceAnswer) error {
	state, err := s.currentState(ctx, eventID)
	if err != nil {
		return err
	}
	if s.saleReopened(ctx, eventID) {
		if state, err = s.readState(ctx, eventID); err != nil {
			return err
		}
	}
	st := lineView{LineState: state, title: s.readTitle(ctx, eventID)}
	var reads memberReads
	var undecided, withoutLine []int
	for _, i := range indexes {
		r := reqs[i]
		switch {
		case st.SaleStatus().Ended():
			out[i] = s.answerOf(r, st.LineState, ClaimOutcome{}, st.title)
		case st.Exists() && r.Entry != nil && r.Entry.Epoch != st.Epoch && st.AcceptsEpoch(r.Entry.Epoch):
			// If Redis has lost the admission, the holder is in the queue again: the script must decide.
			undecided = append(undecided, i)
		case st.Exists():
			reads.add(i, MemberQuery{
				UserID: r.Visitor.UserID, Holder: r.Entry != nil && r.Entry.Epoch == st.Epoch, TwoSets: st.Entitled > 0,
			})
		case r.Ticket != "" || r.Entry != nil: // Redis may have lost the line
			undecided = append(undecided, i)
		default:
			withoutLine = append(withoutLine, i)
		}
	}
	s.answerWithoutLine(ctx, eventID, reqs, st, withoutLine, out)
	notFound, err := s.answerFromReads(ctx, eventID, reqs, st, &reads, out)
	if err != nil {
		for _, i := range reads.indexes {
			out[i].Err = err
		}
	}
	s.checkInChunks(ctx, eventID, reqs, append(undecided, notFound...), false, out)
	return nil
}

// answerWithoutLine answers the requests at the given indexes, all for an event without a line. The
// visitors have no place, or get ErrEventUnknown if the cache knows that there is no event.
func (s *Service) answerWithoutLine(ctx context.Context, eventID string, reqs []PlaceRequest, st lineView, indexes []int, out []PlaceAnswer) {
	if len(indexes) == 0 {
		return
	}
	exists, err := s.existence.checkAsync(ctx, eventID)
	if exists {
		s.cache.RecordEventContact(eventID) // so that the next answer has the status of the sale
	}
	for _, i := range indexes {
		if errors.Is(err, ErrEventUnknown) {
			out[i] = PlaceAnswer{Err: err}
		} else {
			out[i] = s.answerOf(reqs[i], st.LineState, ClaimOutcome{}, st.title)
		}
	}
}

// memberReads are queries for members of a line. indexes has the index of each query's request.
type memberReads struct {
	queries []MemberQuery
	indexes []int
}

func (m *memberReads) add(index int, q MemberQuery) {
	m.queries = append(m.queries, q)
	m.indexes = append(m.indexes, index)
}

// answerFromReads answers the visitors whom plain reads find. It returns the indexes of the others.
func (s *Service) answerFromReads(
	ctx context.Context, eventID string, reqs []PlaceRequest, st lineView, reads *memberReads, out []PlaceAnswer,
) (notFound []int, err error) {
	if len(reads.queries) == 0 {
		return nil, nil
	}
	members, err := s.store.LookUp(ctx, eventID, reads.queries)
	if err != nil {
		return nil, err
	}
	var updates []LastSeenUpdate
	var ask []Visitor
	beforeGeneral := st.BeforeGeneral()
	for k, i := range reads.indexes {
		q, m := reads.queries[k], members[k]
		if !m.Entitled || !beforeGeneral {
			m.Ahead += m.Others
		}
		answer, ok := s.answerFromMember(reqs[i], st, q, m)
		if !ok {
			notFound = append(notFound, i)
			continue
		}
		out[i] = answer
		again := beforeGeneral && !reqs[i].heartbeat && !q.Holder && !m.Entitled && isTurnToAsk(q.UserID, m.LastSeen, st.Now)
		if again {
			ask = append(ask, reqs[i].Visitor)
		}
		if again || s.needsUpdate(q, m, st.LineState) {
			updates = append(updates, LastSeenUpdate{UserID: q.UserID, Holder: q.Holder, At: st.Now, Poll: PollInterval(m.Ahead)})
		}
	}
	s.entitlements.enqueue(eventID, ask)
	s.updateLastSeen(ctx, eventID, updates)
	return notFound, nil
}

// answerFromMember answers a visitor with the data that plain reads found. It returns false if the
// check script must decide.
func (s *Service) answerFromMember(r PlaceRequest, st lineView, q MemberQuery, m MemberState) (PlaceAnswer, bool) {
	switch {
	case !m.Found:
		return PlaceAnswer{}, false
	case !q.Holder:
		return PlaceAnswer{Place: s.waiterPlace(r, st.LineState, ClaimOutcome{Ahead: m.Ahead, Score: m.Score, Entitled: m.Entitled}, st.title)}, true
	}
	end := st.slotEnd(m.End)
	if m.SlotID != r.Entry.SlotID || end <= st.Now {
		return PlaceAnswer{}, false
	}
	return s.holderAnswer(r, st.LineState, ClaimOutcome{State: Inside, SlotID: m.SlotID, End: end}, st.title), true
}

// slotEnd converts the stored end of a slot, which is in the time of slotClock, to Redis's time
// (ms). No slot ends later than its sale. lua/prelude.lua has the same rule.
func (s LineState) slotEnd(stored int64) int64 {
	at, slotClock := stored+s.ExtendedMS, s.slotClock()
	if stored > slotClock && (s.ShopAway() || at <= s.Now) {
		at = s.Now + stored - slotClock
	}
	if s.SaleStatus().Ended() {
		return min(at, s.Now)
	}
	if s.ClosesAt > 0 {
		return min(at, s.ClosesAt)
	}
	return at
}

// needsUpdate reports whether a visitor's contact must be written. It must if the stored one is
// older than a third of the time after which the visitor counts as absent, or if this time has
// grown with the poll interval.
func (s *Service) needsUpdate(q MemberQuery, m MemberState, st LineState) bool {
	age := time.Duration(st.Now-m.LastSeen) * time.Millisecond
	if q.Holder {
		return age >= holderUpdateInterval
	}
	poll := PollInterval(m.Ahead)
	return poll > m.Poll || age >= s.rules.MaxSilence(poll)/3
}

// updateLastSeen writes the contacts of visitors. A failure does no harm, since the next poll
// repeats the write before the visitors count as absent.
func (s *Service) updateLastSeen(ctx context.Context, eventID string, updates []LastSeenUpdate) {
	if len(updates) == 0 {
		return
	}
	if err := s.store.UpdateLastSeen(ctx, eventID, updates); err != nil {
		s.log.WarnContext(ctx, "contacts not written", "event", eventID, "count", len(updates), "error", err)
	}
}

// lineView has the data of a line that is common to the answers to all its visitors.
type lineView struct {
	LineState
	title TitleAndArtist
}

// currentState returns a line's cached state, or a new one if the cached one is too old. It counts
// as a contact.
func (s *Service) currentState(ctx context.Context, eventID string) (LineState, error) {
	s.cache.RecordContact(eventID)
	if p := s.cache.findEntry(eventID); p != nil {
		if st, ok := p.currentState(s.now()); ok {
			return st, nil
		}
	}
	st, err := s.readState(ctx, eventID)
	s.cache.RecordContact(eventID) // the line was perhaps not cached before
	return st, err
}

func (s *Service) readState(ctx context.Context, eventID string) (LineState, error) {
	st, err := s.store.Peek(ctx, eventID, s.cache.Snapshot(eventID))
	if err != nil {
		return LineState{}, err
	}
	s.cache.Observe(eventID, st)
	return st, nil
}
