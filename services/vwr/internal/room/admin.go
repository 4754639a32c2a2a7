package room

import (
	"context"
	"errors"
	"time"
)

// Rooms are the conditional writes of an operator. Each fails with ErrStale when the event is not as expected any more.
type Rooms interface {
	Reader
	Server
	// Start opens a new round with all counters at 0, if the event still is in the given earlier round (0 = none) and inactive, and
	// enters the event in the registry of active events, both or neither.
	Start(ctx context.Context, next Counters, earlier Round) error
	// Configure changes the settings of an active round.
	Configure(ctx context.Context, eventID string, round Round, s Settings) error
	// Stop ends a round and takes the event out of the registry, both or neither.
	Stop(ctx context.Context, eventID string, round Round) error
}

// Server advances serving counters.
type Server interface {
	// Serve writes serving = to, if it still is c.Serving, in c's round, and the room is active; else ErrStale.
	Serve(ctx context.Context, c Counters, to int64) error
}

// Admin carries out what operators ask for. It is safe for concurrent use.
type Admin struct {
	board *Board
	rooms Rooms
	sales Sales
	now   func() time.Time
}

// NewAdmin wires the operators' side.
func NewAdmin(b *Board, r Rooms, s Sales, now func() time.Time) *Admin {
	return &Admin{board: b, rooms: r, sales: s, now: now}
}

// maxTries is how often an operator's act is tried again when the state it was decided on has changed: visitors and the advancing
// replicas write the same item.
const maxTries = 8

// Activate starts a new round on an inactive event, with the default settings where none are given; on an active one it only changes
// the given settings. A new round needs an event: ErrNoEvent. While nobody can say whether there is one it starts all the same, since an
// operator must be able to shut the door just when everything else is overrun.
func (a *Admin) Activate(ctx context.Context, eventID string, change Change) (State, error) {
	return a.act(ctx, eventID, func(c Counters, found bool) (bool, error) {
		if found && c.Active {
			s, err := c.Settings.With(change)
			if err != nil || s == c.Settings {
				return false, err
			}
			return true, a.rooms.Configure(ctx, eventID, c.Round, s)
		}
		if _, err := saleClosed(ctx, a.sales, eventID); errors.Is(err, ErrNoEvent) {
			return false, err
		}
		s, err := DefaultSettings().With(change)
		if err != nil {
			return false, err
		}
		// Later than every earlier round, also of a replica whose clock was ahead.
		round := max(Round(a.now().UnixMicro()), c.Round+1)
		return true, a.rooms.Start(ctx, Counters{EventID: eventID, Active: true, Round: round, Settings: s}, c.Round)
	})
}

// Deactivate ends the round: everyone passes. Doing it again changes nothing. It fails with ErrInactive for an event that never had a
// waiting room.
func (a *Admin) Deactivate(ctx context.Context, eventID string) (State, error) {
	return a.act(ctx, eventID, func(c Counters, found bool) (bool, error) {
		switch {
		case !found:
			return false, ErrInactive
		case !c.Active:
			return false, nil
		}
		return true, a.rooms.Stop(ctx, eventID, c.Round)
	})
}

// Advance moves the serving counter by hand, by n positions (0 = one batch), never past the last position given out.
func (a *Admin) Advance(ctx context.Context, eventID string, n int64) (State, error) {
	return a.act(ctx, eventID, func(c Counters, found bool) (bool, error) {
		if !found || !c.Active {
			return false, ErrInactive
		}
		step := n
		if step <= 0 {
			step = c.Settings.Batch
		}
		step = min(step, c.Waiting())
		if step <= 0 {
			return false, nil
		}
		return true, a.rooms.Serve(ctx, c, c.Serving+step)
	})
}

// Status reads the event's state. It fails with ErrInactive for an event that never had a waiting room.
func (a *Admin) Status(ctx context.Context, eventID string) (State, error) {
	return a.act(ctx, eventID, func(_ Counters, found bool) (bool, error) {
		if !found {
			return false, ErrInactive
		}
		return false, nil
	})
}

// act reads the event and lets step decide and write: once, unless the state it decided on has changed by then. The answer is what the
// store holds after the write.
func (a *Admin) act(ctx context.Context, eventID string, step func(c Counters, found bool) (wrote bool, err error)) (State, error) {
	for range maxTries {
		c, found, err := a.rooms.Read(ctx, eventID)
		if err != nil {
			return State{}, err
		}
		wrote, err := step(c, found)
		if errors.Is(err, ErrStale) {
			continue
		}
		if err != nil {
			return State{}, err
		}
		if wrote {
			if c, _, err = a.rooms.Read(ctx, eventID); err != nil {
				return State{}, err
			}
		}
		return a.board.Apply(c), nil
	}
	return State{}, ErrUnavailable
}
