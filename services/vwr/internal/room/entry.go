package room

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/waits"
)

// findLobbyPosition returns the record of a user who has joined the lobby of the round. It fails
// with ErrLobbyOpen while no positions are issued, or if the user's entry has no position yet.
func (s *Service) findLobbyPosition(ctx context.Context, st State, user string) (Record, bool, error) {
	if !st.Lobby.Assigns(s.now()) {
		return Record{}, false, st.Lobby.NotYetError()
	}
	if user == "" {
		return Record{}, false, nil
	}
	rec, found, err := s.lobbies.FindEntry(ctx, st.Counters, user)
	if err == nil && found && rec.Position == 0 {
		return Record{}, false, st.Lobby.NotYetError()
	}
	return rec, found, err
}

// findEntry returns the user's entry in the lobby if the entry has this id. If nobody is signed in,
// it fails with ErrSignedOut, not ErrUnknown, since the user may have an entry or a position.
func (s *Service) findEntry(ctx context.Context, st State, user string, id uuid.UUID) (Record, error) {
	if user == "" && st.Active && (st.Lobby.Exists() || st.Settings.SignIn) {
		return Record{}, ErrSignedOut
	}
	if user == "" || !st.Lobby.Exists() {
		return Record{}, ErrUnknown
	}
	entryID, ok, err := s.lobbies.EntryID(ctx, st.Counters, user)
	if err != nil {
		return Record{}, err
	}
	if !ok || entryID != id { // made-up ids cost no read of an entry
		return Record{}, ErrUnknown
	}
	rec, found, err := s.lobbies.FindEntry(ctx, st.Counters, user)
	if err == nil && !found {
		err = ErrUnknown
	}
	return rec, err
}

// checkEntry answers a user whose ticket has no position yet. It answers from memory, since all
// users of the lobby ask at the start. After the shuffle it has a ticket with the position.
func (s *Service) checkEntry(ctx context.Context, rec Record) (CheckResult, error) {
	st, ok := s.cache.Get(rec.EventID)
	if !ok || st.Round < rec.Round {
		var err error
		if st, err = s.readState(ctx, rec.EventID); err != nil {
			return CheckResult{}, err
		}
	}
	if st.Round != rec.Round {
		return CheckResult{}, ErrUnknown
	}
	if st.Active {
		position, found := s.lobbies.PositionOf(rec.EventID, rec.Round, rec.RequestID)
		if !found {
			opening := st.Opening()
			asksAt, poll := waits.LobbyPoll(opening, opening.TurnOf(rec.RequestID.String(), time.Time{}), s.now(), s.jitter())
			return CheckResult{Serving: st.Serving, LobbyUntil: st.Lobby.StartsAt, AsksAt: asksAt.UnixMilli(), NextPoll: poll}, nil
		}
		rec.Position = position
	}
	return s.checkResult(rec, st, true)
}
