package line

import (
	"context"
	"errors"
	"slices"
	"time"
)

// SlotQuery asks whether a user's slot is active. Epoch is the epoch in the slot's entry token.
type SlotQuery struct {
	EventID, UserID, SlotID string
	Epoch                   int64
}

// SlotVerdict says whether a slot is active; Err is set if that is not known.
type SlotVerdict struct {
	Active bool
	Err    error
}

// recoveryRetry is when to ask again about a lost slot. Its holder's next heartbeat may restore it.
const recoveryRetry = time.Second

// VerifySlots reports which slots are active, in the order of the queries. It counts as a contact
// of the holders, and restores slots of a lost epoch. If a recovering line does not know a slot,
// the verdict is ErrRecovering, since the holder's next status or heartbeat may restore the slot.
func (s *Service) VerifySlots(ctx context.Context, slots []SlotQuery) []SlotVerdict {
	out := make([]SlotVerdict, len(slots))
	s.forEachLine(ctx, len(slots), func(i int) string { return slots[i].EventID }, func(eventID string, at []int) error {
		return s.verifySlotsOfLine(ctx, eventID, slots, at, out)
	}, func(i int, err error) { out[i] = SlotVerdict{Err: err} })
	return out
}

func failVerdicts(err error, indexes []int, out []SlotVerdict) {
	for _, i := range indexes {
		out[i] = SlotVerdict{Err: err}
	}
}

// verifySlotsOfLine verifies the slots of one event.
func (s *Service) verifySlotsOfLine(ctx context.Context, eventID string, slots []SlotQuery, indexes []int, out []SlotVerdict) error {
	st, err := s.currentState(ctx, eventID)
	if err == nil && slices.ContainsFunc(indexes, func(i int) bool { return slots[i].Epoch > st.Epoch }) {
		// Another replica has issued this token, in an epoch that this replica does not know yet.
		st, err = s.readState(ctx, eventID)
	}
	if err != nil {
		return err
	}
	ended, err := s.verifyAgainstState(ctx, eventID, st, slots, indexes, out)
	if err != nil || len(ended) == 0 {
		return err
	}
	// The cached state may be out of date: the line may have been lost since, or may have extended its
	// slots after an outage of the ticket service. So verify the slots that seem to have ended again.
	now, err := s.readState(ctx, eventID)
	if err != nil {
		failVerdicts(err, ended, out)
		return nil
	}
	if now.Epoch != st.Epoch || now.ExtendedMS != st.ExtendedMS {
		if _, err := s.verifyAgainstState(ctx, eventID, now, slots, ended, out); err != nil {
			failVerdicts(err, ended, out) // the verdicts on the other slots stay valid
		}
	}
	return nil
}

// verifyAgainstState verifies the slots at the given indexes against a state of the line. It
// returns the indexes of slots of the state's epoch that have ended.
func (s *Service) verifyAgainstState(ctx context.Context, eventID string, st LineState, slots []SlotQuery, indexes []int, out []SlotVerdict) (ended []int, err error) {
	queries := make([]MemberQuery, len(indexes))
	for k, i := range indexes {
		queries[k] = MemberQuery{UserID: slots[i].UserID, Holder: true}
	}
	members, err := s.store.LookUp(ctx, eventID, queries)
	if err != nil {
		return nil, err
	}
	var updates []LastSeenUpdate
	var lost []int
	for k, i := range indexes {
		m, slot := members[k], slots[i]
		switch {
		case !st.Exists():
			// No replica remembers the line, but the token shows that there was one: its data was lost.
			out[i].Err = ErrRecovering.WithRetry(recoveryRetry)
		case !st.AcceptsEpoch(slot.Epoch):
			// The token is of an epoch that is not accepted any more: the slot is not active.
		case m.Found && m.SlotID == slot.SlotID && st.slotEnd(m.End) > st.Now:
			out[i].Active = true
			if s.needsUpdate(queries[k], m, st) {
				updates = append(updates, LastSeenUpdate{UserID: slot.UserID, Holder: true, At: st.Now})
			}
		case slot.Epoch != st.Epoch:
			lost = append(lost, i)
		default:
			ended = append(ended, i)
		}
	}
	s.updateLastSeen(ctx, eventID, updates)
	if err := s.restoreSlots(ctx, eventID, slots, lost, out); err != nil {
		failVerdicts(err, lost, out)
	}
	return ended, nil
}

// restoreSlots runs the check script, which restores those slots of a lost epoch that still count.
func (s *Service) restoreSlots(ctx context.Context, eventID string, slots []SlotQuery, indexes []int, out []SlotVerdict) error {
	for chunk := range slices.Chunk(indexes, maxClaimsPerScript) {
		claims := make([]PlaceClaim, len(chunk))
		for k, i := range chunk {
			claims[k] = PlaceClaim{UserID: slots[i].UserID}
		}
		st, outcomes, err := s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
		if err != nil {
			return err
		}
		s.cache.Observe(eventID, st)
		for k, i := range chunk {
			switch {
			case outcomes[k].State == Inside && outcomes[k].SlotID == slots[i].SlotID:
				out[i].Active = true
			case outcomes[k].State == Blocked: // the slot will not be restored
			case st.Recovering():
				out[i].Err = ErrRecovering.WithRetry(recoveryRetry)
			}
		}
	}
	return nil
}

// Leave ends the slot in the entry token e; without a token it removes the user's place in the
// line. It may be repeated.
func (s *Service) Leave(ctx context.Context, eventID, userID string, e *EntryClaims) error {
	slotID := ""
	if e != nil {
		slotID = e.SlotID
	}
	st, err := s.releaseSlot(ctx, eventID, userID, slotID)
	if err != nil || st.Exists() {
		return err
	}
	if err := s.existence.check(ctx, eventID); errors.Is(err, ErrEventUnknown) {
		return err
	}
	return nil
}

// RecordPurchase ends the slot in which a purchase was made, since a slot is for one purchase.
func (s *Service) RecordPurchase(ctx context.Context, eventID, userID, slotID string) error {
	_, err := s.releaseSlot(ctx, eventID, userID, slotID)
	return err
}

func (s *Service) releaseSlot(ctx context.Context, eventID, userID, slotID string) (LineState, error) {
	st, _, err := s.store.Release(ctx, eventID, s.cache.Snapshot(eventID), userID, slotID)
	if err != nil {
		return LineState{}, err
	}
	s.cache.Observe(eventID, st)
	return st, nil
}

// RecordHold records that a slot holder holds seats, or does so no longer. While seats are held,
// absence does not end the slot. It has no effect if the slot has ended or the hold has expired.
func (s *Service) RecordHold(ctx context.Context, eventID string, h SeatHold) error {
	if !h.Until.IsZero() && !h.Until.After(s.now()) {
		return nil
	}
	st, _, err := s.store.Hold(ctx, eventID, s.cache.Snapshot(eventID), h)
	if err != nil {
		return err
	}
	s.cache.Observe(eventID, st)
	return nil
}
