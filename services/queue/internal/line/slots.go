package line

import (
	"context"
	"errors"
	"slices"
	"time"
)

// SlotQuery asks whether a slot is active. Epoch is the one in which its token was issued.
type SlotQuery struct {
	EventID, UserID, SlotID string
	Epoch                   int64
}

// SlotVerdict says whether a slot is active, or why that is not known.
type SlotVerdict struct {
	Active bool
	Err    error
}

// recoveryRetry is the retry delay for a holder whose lost slot the next heartbeat will restore.
const recoveryRetry = time.Second

// VerifySlots reports which slots are active, in the order of the arguments. It counts as contact
// and takes over slots of the ended epoch. An unknown slot in a recovering line gets ErrRecovering:
// its holder's next status or heartbeat restores it if possible.
func (s *Service) VerifySlots(ctx context.Context, slots []SlotQuery) []SlotVerdict {
	out := make([]SlotVerdict, len(slots))
	s.forEachLine(ctx, len(slots), func(i int) string { return slots[i].EventID }, func(eventID string, at []int) error {
		return s.verifySlotsOfLine(ctx, eventID, slots, at, out)
	}, func(i int, err error) { out[i] = SlotVerdict{Err: err} })
	return out
}

func failVerdicts(err error, positions []int, out []SlotVerdict) {
	for _, i := range positions {
		out[i] = SlotVerdict{Err: err}
	}
}

// verifySlotsOfLine verifies the slots of one event.
func (s *Service) verifySlotsOfLine(ctx context.Context, eventID string, slots []SlotQuery, positions []int, out []SlotVerdict) error {
	st, err := s.currentState(ctx, eventID)
	if err == nil && slices.ContainsFunc(positions, func(i int) bool { return slots[i].Epoch > st.Epoch }) {
		// Another replica has issued a token of an epoch unknown to this one.
		st, err = s.readState(ctx, eventID)
	}
	if err != nil {
		return err
	}
	ended, err := s.verifyAgainstState(ctx, eventID, st, slots, positions, out)
	if err != nil || len(ended) == 0 {
		return err
	}
	// Since the cached state the line may have been lost, or extended the slots after an outage of
	// ticket. Then the slots have not ended and are verified again.
	now, err := s.readState(ctx, eventID)
	if err != nil {
		failVerdicts(err, ended, out)
		return nil
	}
	if now.Epoch != st.Epoch || now.Lost != st.Lost {
		if _, err := s.verifyAgainstState(ctx, eventID, now, slots, ended, out); err != nil {
			failVerdicts(err, ended, out) // the other verdicts stay valid
		}
	}
	return nil
}

// verifyAgainstState verifies slots against a state of the line, and returns those of the state's
// epoch that have ended.
func (s *Service) verifyAgainstState(ctx context.Context, eventID string, st State, slots []SlotQuery, positions []int, out []SlotVerdict) (ended []int, err error) {
	queries := make([]MemberQuery, len(positions))
	for k, i := range positions {
		queries[k] = MemberQuery{UserID: slots[i].UserID, Holder: true}
	}
	members, err := s.store.LookUp(ctx, eventID, queries)
	if err != nil {
		return nil, err
	}
	var updates []LastSeenUpdate
	var lost []int
	for k, i := range positions {
		m, slot := members[k], slots[i]
		switch {
		case !st.Exists():
			// The data was lost and no replica knows the line, but the token shows that it existed.
			out[i].Err = ErrRecovering.WithRetry(recoveryRetry)
		case !st.AcceptsEpoch(slot.Epoch):
			// The token's epoch has expired, and the gateways know the new one.
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
	if err := s.takeOver(ctx, eventID, slots, lost, out); err != nil {
		failVerdicts(err, lost, out)
	}
	return ended, nil
}

// takeOver runs the check script for holders of the ended epoch.
func (s *Service) takeOver(ctx context.Context, eventID string, slots []SlotQuery, positions []int, out []SlotVerdict) error {
	for chunk := range slices.Chunk(positions, maxClaimsPerScript) {
		claims := make([]Claim, len(chunk))
		for k, i := range chunk {
			claims[k] = Claim{UserID: slots[i].UserID}
		}
		st, outcomes, err := s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
		if err != nil {
			return err
		}
		s.cache.Observe(eventID, st)
		for k, i := range chunk {
			switch {
			case outcomes[k].Standing == Inside && outcomes[k].SlotID == slots[i].SlotID:
				out[i].Active = true
			case outcomes[k].Standing == Blocked: // the slot will not be restored
			case st.Recovering():
				out[i].Err = ErrRecovering.WithRetry(recoveryRetry)
			}
		}
	}
	return nil
}

// Leave ends the token's slot; without a token it gives up the waiting place. It is idempotent.
func (s *Service) Leave(ctx context.Context, eventID, userID string, e *Entry) error {
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

// RecordPurchase ends the slot in which a reservation was confirmed: one purchase per slot.
func (s *Service) RecordPurchase(ctx context.Context, eventID, userID, slotID string) error {
	_, err := s.releaseSlot(ctx, eventID, userID, slotID)
	return err
}

func (s *Service) releaseSlot(ctx context.Context, eventID, userID, slotID string) (State, error) {
	st, _, err := s.store.Release(ctx, eventID, s.cache.Snapshot(eventID), userID, slotID)
	if err != nil {
		return State{}, err
	}
	s.cache.Observe(eventID, st)
	return st, nil
}

// RecordHold records that seats are held by a slot holder, or no longer. While they are held,
// absence does not end the slot. It has no effect for an ended slot or an expired hold.
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
