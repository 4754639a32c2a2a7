package room

import (
	"context"
	"errors"
	"time"
)

// RoomStore reads and changes rooms for operators. A write fails with ErrStale if the stored state
// is not the expected one.
type RoomStore interface {
	CounterReader
	ServingWriter
	// Start begins a new round with all counters at 0, and adds the event to the registry of active
	// events, in one transaction. The event must be inactive and in the given earlier round (0 =
	// none). opening is for a round with a lobby and is stored in the same transaction.
	Start(ctx context.Context, next Counters, earlier Round, opening *LobbyOpening) error
	// Configure changes the settings of a round, which must be active.
	Configure(ctx context.Context, eventID string, round Round, s Settings) error
	// Stop ends a round and removes the event from the registry, in one transaction.
	Stop(ctx context.Context, eventID string, round Round) error
	// ClaimCount reads the number of claims of a round.
	ClaimCount(ctx context.Context, eventID string, round Round) (int64, error)
}

// ServingWriter advances serving counters.
type ServingWriter interface {
	// SetServing sets the serving counter to `to`. It fails with ErrStale unless the stored counter is
	// c.Serving, the stored round is c.Round, and the room is active.
	SetServing(ctx context.Context, c Counters, to int64) error
}

// Admin activates, changes, advances and ends rooms for operators. It is safe for concurrent use.
type Admin struct {
	cache        *StateCache
	rooms        RoomStore
	destinations Destinations
	lobbies      Lobbies
	now          func() time.Time
}

// NewAdmin returns an Admin.
func NewAdmin(sc *StateCache, r RoomStore, d Destinations, l Lobbies, now func() time.Time) *Admin {
	return &Admin{cache: sc, rooms: r, destinations: d, lobbies: l, now: now}
}

// maxAttempts is the most attempts of an operator's write. Its condition may fail, since visitors'
// requests and the Advancers write the same item.
const maxAttempts = 8

// Activate starts a new round for an inactive event, with defaults for settings that are not given.
// For an active event it only changes the given settings. It fails with ErrNoEvent, ErrNoPromotion
// or ErrNoCampaign if the room would lead to something that does not exist. If that cannot be
// checked, the round starts: an operator must be able to open a waiting room while other services
// are overloaded. A new round begins with a lobby if its terms are given. A running round keeps its
// lobby (ErrLobbyFixed).
func (a *Admin) Activate(ctx context.Context, eventID string, change SettingsChange) (State, error) {
	return a.readModifyWrite(ctx, eventID, func(c Counters, found bool) (bool, error) {
		active, before := found && c.Active, DefaultSettings()
		if active {
			before = c.Settings
		}
		s, err := before.With(change)
		if err == nil {
			err = s.Next.checkID(eventID)
		}
		if err == nil && !(active && s.Next == before.Next) {
			err = a.destinations.requireExists(ctx, s.Next, eventID)
		}
		if err != nil {
			return false, err
		}
		if active {
			err := a.requireSameLobby(ctx, c, change.Lobby)
			if err != nil || s == c.Settings {
				return false, err
			}
			if err := c.requireNotHalted(s, a.now()); err != nil {
				return false, err
			}
			return true, a.rooms.Configure(ctx, eventID, c.Round, s)
		}
		// The number of the round must exceed every earlier one, even one from a clock that was ahead.
		next := Counters{EventID: eventID, Active: true, Round: max(Round(a.now().UnixMicro()), c.Round+1), Settings: s}
		var opening *LobbyOpening
		if change.Lobby.Given() {
			if next.Lobby, opening, err = a.lobbies.OpenLobby(ctx, eventID, change.Lobby); err != nil {
				return false, err
			}
		}
		return true, a.rooms.Start(ctx, next, c.Round, opening)
	})
}

// requireNotHalted fails with ErrInvalidSettings if s would stop the counter, which may move at
// now, until a longer spread is over.
func (c Counters) requireNotHalted(s Settings, now time.Time) error {
	next := c
	if next.Settings = s; !c.Serves(now) || next.Serves(now) {
		return nil
	}
	return invalidSettings("expected", "must not lengthen the spread, now that all have asked: the counter would stop until it is over")
}

// requireSameLobby fails with ErrLobbyFixed if the terms differ from the running round's lobby. It
// accepts the same terms, since an operator may repeat an activation.
func (a *Admin) requireSameLobby(ctx context.Context, c Counters, t LobbyTerms) error {
	different := func(at time.Time, ms int64) bool { return !at.IsZero() && at.UnixMilli() != ms }
	if different(t.OpensAt, c.Lobby.OpensAt) || different(t.StartsAt, c.Lobby.StartsAt) {
		return c.Lobby.withSchedule(ErrLobbyFixed)
	}
	if t.Beacon == nil {
		return nil
	}
	if !c.Lobby.Exists() {
		return ErrLobbyFixed
	}
	same, err := a.lobbies.SameBeacon(ctx, c.EventID, c.Round, t.Beacon)
	if err == nil && !same {
		err = c.Lobby.withSchedule(ErrLobbyFixed)
	}
	return err
}

// Deactivate ends the round, so that everybody is admitted. It may be repeated. It fails with
// ErrInactive for an event that never had a waiting room.
func (a *Admin) Deactivate(ctx context.Context, eventID string) (State, error) {
	return a.readModifyWrite(ctx, eventID, func(c Counters, found bool) (bool, error) {
		switch {
		case !found:
			return false, ErrInactive
		case !c.Active:
			return false, nil
		}
		return true, a.rooms.Stop(ctx, eventID, c.Round)
	})
}

// Advance moves the serving counter by n positions (0: one batch), at most to the last position.
// After a lobby it fails with ErrLobbyOpen until the counter may move.
func (a *Admin) Advance(ctx context.Context, eventID string, n int64) (State, error) {
	return a.readModifyWrite(ctx, eventID, func(c Counters, found bool) (bool, error) {
		if !found || !c.Active {
			return false, ErrInactive
		}
		if !c.Serves(a.now()) {
			return false, c.notServedError(a.now())
		}
		step := n
		if step <= 0 {
			step = c.Settings.Batch
		}
		step = min(step, c.Waiting())
		if step <= 0 {
			return false, nil
		}
		return true, a.rooms.SetServing(ctx, c, c.Serving+step)
	})
}

// Status returns the event's state, or ErrInactive for an event that never had a waiting room.
func (a *Admin) Status(ctx context.Context, eventID string) (State, error) {
	return a.readModifyWrite(ctx, eventID, func(_ Counters, found bool) (bool, error) {
		if !found {
			return false, ErrInactive
		}
		return false, nil
	})
}

// readModifyWrite reads the event and calls step, which may write. If step fails with ErrStale, it
// starts again. It returns the stored state after the write.
func (a *Admin) readModifyWrite(ctx context.Context, eventID string, step func(c Counters, found bool) (wrote bool, err error)) (State, error) {
	for range maxAttempts {
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
		counting, cancel := context.WithTimeout(ctx, claimsTimeout)               // a short time limit, since the write has succeeded
		if n, err := a.rooms.ClaimCount(counting, eventID, c.Round); err == nil { // else the cached count is returned
			c.Claimed = n
		}
		cancel()
		return a.cache.Merge(c), nil
	}
	return State{}, ErrUnavailable
}
