package line

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Slot names one entry slot and the epoch of the token that shows it.
type Slot struct {
	EventID, UserID, SlotID string
	Epoch                   int64
}

// Verdict says whether a slot is active.
type Verdict struct {
	Active bool
	Err    error
}

// recoveryRetry is when a holder should try again whose slot was lost and whose next heartbeat will bring it back.
const recoveryRetry = time.Second

// Verify says which slots are active, by position; it counts as contact. A slot of the epoch that ended is taken over by it. One that is
// unknown while the line recovers is ErrRecovering: its holder's next status or heartbeat brings it back, if it can be brought back.
func (s *Service) Verify(ctx context.Context, slots []Slot) []Verdict {
	out := make([]Verdict, len(slots))
	s.perLine(ctx, len(slots), func(i int) string { return slots[i].EventID }, func(eventID string, at []int, err error) {
		if err == nil {
			err = s.verifyLine(ctx, eventID, slots, at, out)
		}
		if err != nil {
			failVerdicts(err, at, out)
		}
	})
	return out
}

func failVerdicts(err error, positions []int, out []Verdict) {
	for _, i := range positions {
		out[i] = Verdict{Err: err}
	}
}

func (s *Service) verifyLine(ctx context.Context, eventID string, slots []Slot, positions []int, out []Verdict) error {
	st, err := s.state(ctx, eventID)
	if err == nil && slices.ContainsFunc(positions, func(i int) bool { return slots[i].Epoch > st.Epoch }) {
		st, err = s.peek(ctx, eventID) // another replica has given out a token of an epoch that this one has not heard of
	}
	if err != nil {
		return err
	}
	ended, err := s.judge(ctx, eventID, st, slots, positions, out)
	if err != nil || len(ended) == 0 {
		return err
	}
	// The line may have been lost since this replica heard of it. Then nothing has ended, and it is
	// said otherwise at once.
	now, err := s.peek(ctx, eventID)
	if err != nil {
		failVerdicts(err, ended, out)
		return nil
	}
	if now.Epoch != st.Epoch {
		if _, err := s.judge(ctx, eventID, now, slots, ended, out); err != nil {
			failVerdicts(err, ended, out) // the others are judged
		}
	}
	return nil
}

// judge decides about slots as a state of the line has it, and returns those of the state's own
// epoch that have ended.
func (s *Service) judge(ctx context.Context, eventID string, st State, slots []Slot, positions []int, out []Verdict) (ended []int, err error) {
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
		g, slot := members[k], slots[i]
		switch {
		case !st.Exists(): // Redis lost it and nobody remembers it, but the token shows that there was a line
			out[i].Err = ErrRecovering.WithRetry(recoveryRetry)
		case !st.Honours(slot.Epoch): // the gateways have the new epoch by now, the token is not good any more
		case g.Found && g.SlotID == slot.SlotID && st.ends(g.End) > st.Now:
			out[i].Active = true
			if s.stale(queries[k], g, st) {
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

// takeOver asks the script for holders of the epoch that ended.
func (s *Service) takeOver(ctx context.Context, eventID string, slots []Slot, positions []int, out []Verdict) error {
	for piece := range slices.Chunk(positions, perScript) {
		claims := make([]Claim, len(piece))
		for k, i := range piece {
			claims[k] = Claim{UserID: slots[i].UserID}
		}
		st, outcomes, err := s.store.Check(ctx, eventID, s.cache.Snapshot(eventID), claims)
		if err != nil {
			return err
		}
		s.cache.Observe(eventID, st)
		for k, i := range piece {
			switch {
			case outcomes[k].Standing == Inside && outcomes[k].SlotID == slots[i].SlotID:
				out[i].Active = true
			case st.Recovering():
				out[i].Err = ErrRecovering.WithRetry(recoveryRetry)
			}
		}
	}
	return nil
}

// Leave ends the slot of the token that was sent; without one the waiting place is given up. Repeating it changes nothing.
func (s *Service) Leave(ctx context.Context, eventID, userID string, e *Entry) error {
	slotID := ""
	if e != nil {
		slotID = e.SlotID
	}
	st, err := s.release(ctx, eventID, userID, slotID)
	if err != nil || st.Exists() {
		return err
	}
	if err := s.existence.has(ctx, eventID); errors.Is(err, ErrEventUnknown) {
		return err
	}
	return nil
}

// Purchased ends the slot in which a reservation was confirmed: one purchase per slot.
func (s *Service) Purchased(ctx context.Context, eventID, userID, slotID string) error {
	_, err := s.release(ctx, eventID, userID, slotID)
	return err
}

func (s *Service) release(ctx context.Context, eventID, userID, slotID string) (State, error) {
	st, _, err := s.store.Release(ctx, eventID, s.cache.Snapshot(eventID), userID, slotID)
	if err != nil {
		return State{}, err
	}
	s.cache.Observe(eventID, st)
	return st, nil
}

// Held notes that seats are held in a slot, or are not any more: then its holder's absence is not
// excused any longer. A slot that has ended, or a hold whose time is over, changes nothing.
func (s *Service) Held(ctx context.Context, eventID string, h Hold) error {
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
