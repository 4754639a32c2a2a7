package event

import (
	"context"
	"time"
)

// DefaultGrace is the time in which a cancellation can be undone, unless the operator gives another.
const DefaultGrace = 5 * time.Minute

// Act is what an operator does to an event.
//
//	OPEN ↔ PAUSED                by PAUSE and RESUME
//	OPEN, PAUSED → CANCELLED     by CANCEL; back to where it was by UNDO
//	CANCELLED → ENDED            by REFUND, or when the grace is over
type Act string

// The acts.
const (
	Pause  Act = "PAUSE"
	Resume Act = "RESUME"
	Cancel Act = "CANCEL"
	Undo   Act = "UNDO"
	Refund Act = "REFUND"
)

// answers has what an act answers in the states that it does not change: nil where the event is
// already as the act makes it, so that a repeated call succeeds.
var answers = map[Act]map[State]error{ //nolint:gochecknoglobals // a constant table
	Pause:  {Paused: nil, Cancelled: ErrCancelled, Ended: ErrCancelled},
	Resume: {Open: nil, Cancelled: ErrCancelled, Ended: ErrCancelled},
	Cancel: {Cancelled: nil, Ended: nil},
	Undo:   {Open: nil, Paused: nil, Ended: ErrRefundsBegun},
	Refund: {Open: ErrNotCancelled, Paused: ErrNotCancelled, Ended: nil},
}

// Answer returns what the act answers in a state that it does not change. changes means that it does.
func (a Act) Answer(s State) (changes bool, answer error) {
	answer, known := answers[a][s]
	return !known, answer
}

// Standing is the state of an event, and what is left of it.
type Standing struct {
	State State
	// RefundsAt is that of History.
	RefundsAt time.Time
	// Holds are the unpaid reservations, Orders the paid ones of which a place was not given back.
	Holds, Orders int64
	// Tickets admit somebody; Refunds of tickets are under way.
	Tickets, Refunds int64
}

// Operator changes the state, the date and the house of events.
type Operator interface {
	// Act changes the state of an event. A repeated call changes nothing.
	Act(ctx context.Context, id string, act Act, grace time.Duration) error
	// Postpone moves the date of an event. A repeated call changes nothing.
	Postpone(ctx context.Context, id string, p Postponement) error
	// Standing returns the state of an event, or ErrNotFound.
	Standing(ctx context.Context, id string) (Standing, error)
	// ChangeHouse makes all of a change, or nothing.
	ChangeHouse(ctx context.Context, id string, c HouseChange) error
	// House returns what the organiser keeps of an event, or ErrNotFound.
	House(ctx context.Context, id string) (House, error)
}

// Act changes the state of an event; grace is for Cancel. The errors are those of Act.Answer.
func (s *Service) Act(ctx context.Context, id string, act Act, grace time.Duration) (Standing, error) {
	if err := s.writer.Act(ctx, id, act, grace); err != nil {
		return Standing{}, err
	}
	s.forget(id)
	return s.writer.Standing(ctx, id)
}

// Postpone moves the date of an event. Errors: ErrCancelled, ErrStartPast, ErrInvalid.
func (s *Service) Postpone(ctx context.Context, id string, p Postponement) (Standing, error) {
	if err := s.writer.Postpone(ctx, id, p); err != nil {
		return Standing{}, err
	}
	s.forget(id)
	return s.writer.Standing(ctx, id)
}
