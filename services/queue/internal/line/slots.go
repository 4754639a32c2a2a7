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
	for eventID, at := range byEvent(all(len(slots)), func(i int) string { return slots[i].EventID }) {
		s.verifyLine(ctx, eventID, slots, at, out)
	}
	return out
}

func (s *Service) verifyLine(ctx context.Context, eventID string, slots []Slot, positions []int, out []Verdict) {
	fail := func(err error, at []int) {
		for _, i := range at {
			out[i] = Verdict{Err: err}
		}
	}
	st, err := s.state(ctx, eventID)
	if err == nil && slices.ContainsFunc(positions, func(i int) bool { return slots[i].Epoch > st.Epoch }) {
		st, err = s.peek(ctx, eventID) // another replica has given out a token of an epoch that this one has not heard of
	}
	if err != nil {
		fail(err, positions)
		return
	}
	looks := make([]Look, len(positions))
	for k, i := range positions {
		looks[k] = Look{EventID: eventID, UserID: slots[i].UserID, Holder: true}
	}
	sights, err := s.store.Look(ctx, looks)
	if err != nil {
		fail(err, positions)
		return
	}
	var touches []Touch
	var lost []int
	for k, i := range positions {
		g, slot := sights[k], slots[i]
		switch {
		case !st.Exists(): // Redis lost it and nobody remembers it, but the token shows that there was a line
			out[i].Err = ErrRecovering.WithRetry(recoveryRetry)
		case slot.Epoch != st.Epoch && !st.Recovering(): // the gateways have the new epoch by now, the token is not good any more
		case g.Found && g.SlotID == slot.SlotID && st.ends(g.End) > st.Now:
			out[i].Active = true
			if s.stale(looks[k], g, st) {
				touches = append(touches, Touch{EventID: eventID, UserID: slot.UserID, Holder: true, At: st.Now})
			}
		case slot.Epoch != st.Epoch:
			lost = append(lost, i)
		}
	}
	s.touch(ctx, touches)
	if err := s.takeOver(ctx, eventID, slots, lost, out); err != nil {
		fail(err, lost)
	}
}

// takeOver asks the script for holders of the epoch that ended.
func (s *Service) takeOver(ctx context.Context, eventID string, slots []Slot, positions []int, out []Verdict) error {
	for piece := range slices.Chunk(positions, perScript) {
		claims := make([]Claim, len(piece))
		for k, i := range piece {
			claims[k] = Claim{UserID: slots[i].UserID}
		}
		st, outcomes, err := s.store.Check(ctx, eventID, s.book.Recall(eventID), claims)
		if err != nil {
			return err
		}
		s.book.Learn(eventID, st)
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
	if err := s.roll.has(ctx, eventID); errors.Is(err, ErrEventUnknown) {
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
	st, _, err := s.store.Release(ctx, eventID, s.book.Recall(eventID), userID, slotID)
	if err != nil {
		return State{}, err
	}
	s.book.Learn(eventID, st)
	return st, nil
}

// Held notes that seats are held in a slot until then. A slot that has ended, or a hold that is over, changes nothing.
func (s *Service) Held(ctx context.Context, eventID, userID, slotID string, until time.Time) error {
	if !until.After(s.now()) {
		return nil
	}
	st, _, err := s.store.Hold(ctx, eventID, s.book.Recall(eventID), userID, slotID, until)
	if err != nil {
		return err
	}
	s.book.Learn(eventID, st)
	return nil
}
