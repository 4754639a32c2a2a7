package event

import (
	"context"
	"time"
)

// DefaultGrace is the time in which a cancellation can be undone, unless the operator sets another.
const DefaultGrace = 5 * time.Minute

// Act is what an operator does to an event.
//
//	OPEN → PAUSED             PAUSE
//	PAUSED → OPEN             RESUME
//	OPEN, PAUSED → CANCELLED  CANCEL
//	CANCELLED → OPEN, PAUSED  UNDO, which restores the state before
//	CANCELLED → ENDED         REFUND; it also happens when the time to undo is over
type Act string

// The acts.
const (
	Pause  Act = "PAUSE"
	Resume Act = "RESUME"
	Cancel Act = "CANCEL"
	Undo   Act = "UNDO"
	Refund Act = "REFUND"
)

// answers has, for each state that an act does not change, the error that the act returns. It is
// nil if the event is already in the state that the act makes, so that a repeated call succeeds.
var answers = map[Act]map[State]error{ //nolint:gochecknoglobals // a constant table
	Pause:  {Paused: nil, Cancelled: ErrCancelled, Ended: ErrCancelled},
	Resume: {Open: nil, Cancelled: ErrCancelled, Ended: ErrCancelled},
	Cancel: {Cancelled: nil, Ended: nil},
	Undo:   {Open: nil, Paused: nil, Ended: ErrRefundsBegun},
	Refund: {Open: ErrNotCancelled, Paused: ErrNotCancelled, Ended: nil},
}

// Answer reports whether the act changes state s. If not, answer is the error to return, or nil.
func (a Act) Answer(s State) (changes bool, answer error) {
	answer, unchanged := answers[a][s]
	return !unchanged, answer
}

// StateAndCounts is an event's state, with the numbers of its holds, orders, tickets and refunds.
type StateAndCounts struct {
	State State
	// RefundsAt is when the refunds of a cancelled event begin, or have begun.
	RefundsAt time.Time
	// Holds counts unpaid reservations; Orders counts paid ones with a place that was not given back.
	Holds, Orders int64
	// Tickets counts valid tickets; Refunds counts refunds of tickets that are under way.
	Tickets, Refunds int64
}

// OperatorStore changes the state, the date and the house of events.
type OperatorStore interface {
	// Act changes the state of an event. A repeated call changes nothing.
	Act(ctx context.Context, id string, act Act, grace time.Duration) error
	// Postpone moves the date of an event. A repeated call changes nothing.
	Postpone(ctx context.Context, id string, p Postponement) error
	// StateAndCounts returns the state of an event with its counts, or ErrNotFound.
	StateAndCounts(ctx context.Context, id string) (StateAndCounts, error)
	// ChangeHouse moves all places of a change, or none.
	ChangeHouse(ctx context.Context, id string, c HouseChange) error
	// House returns the places that the organiser keeps of an event, or ErrNotFound.
	House(ctx context.Context, id string) (House, error)
}

// Act changes an event's state; grace is the time to undo a Cancel. Act.Answer has the errors.
func (s *Service) Act(ctx context.Context, id string, act Act, grace time.Duration) (StateAndCounts, error) {
	if err := s.writer.Act(ctx, id, act, grace); err != nil {
		return StateAndCounts{}, err
	}
	s.forget(id)
	return s.writer.StateAndCounts(ctx, id)
}

// Postpone moves the date of an event. Errors: ErrCancelled, ErrStartPast, ErrInvalid.
func (s *Service) Postpone(ctx context.Context, id string, p Postponement) (StateAndCounts, error) {
	if err := s.writer.Postpone(ctx, id, p); err != nil {
		return StateAndCounts{}, err
	}
	s.forget(id)
	return s.writer.StateAndCounts(ctx, id)
}
