package room

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
)

// Lobby is the schedule of a round's lobby and how far it has come. Times are ms since the epoch.
// The zero value is that of a round without a lobby.
//
//	OpensAt … ClosesAt   users join
//	ClosesAt … StartsAt  the entries become final (Sized) and public
//	StartsAt …           later arrivals get positions behind the entries, once Sized; the entries get
//	                     theirs and the counter moves, once Shuffled
type Lobby struct {
	OpensAt, ClosesAt, StartsAt int64
	// Sized means that the entries are final and that Issued includes them.
	Sized bool
	// Shuffled means that every entry has its position.
	Shuffled bool
}

// Exists reports whether the round has a lobby.
func (l Lobby) Exists() bool { return l.StartsAt != 0 }

// Pending reports whether the entries have no positions yet. Until then nobody is served.
func (l Lobby) Pending() bool { return l.Exists() && !l.Shuffled }

// Assigns reports whether positions are issued at now, behind the entries of the lobby.
func (l Lobby) Assigns(now time.Time) bool {
	return !l.Exists() || (l.Sized && now.UnixMilli() >= l.StartsAt)
}

// TakesEntries reports whether users can join at now.
func (l Lobby) TakesEntries(now time.Time) bool {
	return l.Exists() && now.UnixMilli() >= l.OpensAt && now.UnixMilli() < l.ClosesAt
}

// merge returns the later of two views of a round's lobby.
func (l Lobby) merge(old Lobby) Lobby {
	l.Sized = l.Sized || old.Sized
	l.Shuffled = l.Shuffled || old.Shuffled
	return l
}

// explain adds the schedule to an error, in ms.
func (l Lobby) explain(e *errs.Error) *errs.Error {
	for name, at := range map[string]int64{"lobbyOpensAt": l.OpensAt, "closesAt": l.ClosesAt, "opensAt": l.StartsAt} {
		if at != 0 {
			e = e.With(name, strconv.FormatInt(at, 10))
		}
	}
	return e
}

// NotYet is the answer to who asks for a position while none are issued.
func (l Lobby) NotYet() error { return l.explain(ErrLobbyOpen) }

// Closed is the answer to who joins while no entries are taken.
func (l Lobby) Closed() error { return l.explain(ErrLobbyClosed) }

// UserVisitor is the visitor of a user's entry: a lobby has one entry per user, not per browser.
func UserVisitor(user string) string { return claims.UserPrefix + user }

// LobbyTerms are an operator's terms of a lobby; zero members are not given.
type LobbyTerms struct {
	OpensAt, StartsAt time.Time
	Beacon            *fairdraw.Beacon // without the delay, which follows from the schedule
}

// Given reports whether any term is given.
func (t LobbyTerms) Given() bool {
	return !t.OpensAt.IsZero() || !t.StartsAt.IsZero() || t.Beacon != nil
}

// Opening is what a round with a lobby stores at its start, once and for all: the public commitment
// of the shuffle, and the nonce that its seed is derived from.
type Opening struct {
	Commitment []byte // canonical JSON
	Nonce      fairdraw.Nonce
}

// Lobbies has the entries of lobbies and their shuffles.
type Lobbies interface {
	// Open makes the schedule and the opening of a round's lobby. It fails with ErrInvalidSettings.
	Open(eventID string, terms LobbyTerms) (Lobby, *Opening, error)
	// SameBeacon reports whether the shuffle of a round was opened with this beacon.
	SameBeacon(ctx context.Context, eventID string, round Round, b *fairdraw.Beacon) (bool, error)
	// EntryID is the id of the user's entry in the lobby of a round, whether there is one or not. It reads
	// no entry; ok is false when the id is not known.
	EntryID(ctx context.Context, c Counters, user string) (id uuid.UUID, ok bool, err error)
	// Find returns the user's entry in the lobby of a round, with its position once the lobby is
	// shuffled. It fails with ErrUnavailable while a shuffled lobby is not in memory.
	Find(ctx context.Context, c Counters, user string) (r Record, found bool, err error)
	// Position returns the position of an entry of a shuffled lobby, without reading the store; found
	// is false when the lobby is not in memory, or has no such entry.
	Position(eventID string, round Round, id uuid.UUID) (position int64, found bool)
}
