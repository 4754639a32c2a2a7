package room

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
)

// Lobby is the schedule and the progress of a round's lobby. Times are ms since the epoch. A round
// without a lobby has the zero value.
//
//	OpensAt … ClosesAt   users join
//	ClosesAt … StartsAt  the entries become final (Sized) and public
//	StartsAt …           once Sized, later arrivals get positions behind the entries;
//	                     once Shuffled, the entries get positions;
//	                     once all have had the time to see theirs, the counter moves (Counters.Serves)
type Lobby struct {
	OpensAt, ClosesAt, StartsAt int64
	Sized                       bool // the entries are final and Issued includes them
	Shuffled                    bool // every entry has its position
	// Entries is the number of entries, once Sized. ShuffledAt is when they got positions, once Shuffled.
	Entries, ShuffledAt int64
}

func (l Lobby) Exists() bool { return l.StartsAt != 0 }

// Pending reports whether the entries have no positions yet. Until then nobody is served.
func (l Lobby) Pending() bool { return l.Exists() && !l.Shuffled }

// Assigns reports whether positions are issued at now, behind the entries of the lobby.
func (l Lobby) Assigns(now time.Time) bool {
	return !l.Exists() || (l.Sized && now.UnixMilli() >= l.StartsAt)
}

func (l Lobby) TakesEntries(now time.Time) bool {
	return l.Exists() && now.UnixMilli() >= l.OpensAt && now.UnixMilli() < l.ClosesAt
}

// merge combines two reads of a round's lobby. Either may be the later one.
func (l Lobby) merge(old Lobby) Lobby {
	l.Sized = l.Sized || old.Sized
	l.Shuffled = l.Shuffled || old.Shuffled
	l.Entries, l.ShuffledAt = max(l.Entries, old.Entries), max(l.ShuffledAt, old.ShuffledAt)
	return l
}

// withSchedule adds the times of the lobby to an error, in ms.
func (l Lobby) withSchedule(e *errs.Error) *errs.Error {
	for name, at := range map[string]int64{"lobbyOpensAt": l.OpensAt, "closesAt": l.ClosesAt, "opensAt": l.StartsAt} {
		if at != 0 {
			e = e.With(name, strconv.FormatInt(at, 10))
		}
	}
	return e
}

// NotYetError is the error of a request for a position while no positions are issued.
func (l Lobby) NotYetError() error { return l.withSchedule(ErrLobbyOpen) }

// notServedError is the error of an operator's advance before the counter may move. While the
// entrants ask, it has the end of that as servesAt (epoch ms) and Retry-After.
func (c Counters) notServedError(now time.Time) error {
	e := c.Lobby.withSchedule(ErrLobbyOpen)
	if end := c.asked(); c.Lobby.Shuffled {
		e = e.With("servesAt", strconv.FormatInt(end.UnixMilli(), 10)).WithRetry(end.Sub(now))
	}
	return e
}

// ClosedError is the error of a join while the lobby accepts no entries.
func (l Lobby) ClosedError() error { return l.withSchedule(ErrLobbyClosed) }

// UserVisitor returns the visitor id of a user, for records that belong to a user, not a browser.
func UserVisitor(user string) string { return claims.UserPrefix + user }

// OfUser reports whether the record belongs to a user, not to a browser.
func (r Record) OfUser() bool { return strings.HasPrefix(r.Visitor, claims.UserPrefix) }

// LobbyTerms are an operator's terms of a lobby. A zero field is not given.
type LobbyTerms struct {
	OpensAt, StartsAt time.Time
	Beacon            *fairdraw.Beacon // without the delay, which is computed from the schedule
}

func (t LobbyTerms) Given() bool {
	return !t.OpensAt.IsZero() || !t.StartsAt.IsZero() || t.Beacon != nil
}

// LobbyOpening is the data of a shuffle that never changes, stored at the start of its round: the
// public commitment, and the nonce from which the seed is derived.
type LobbyOpening struct {
	Commitment []byte // canonical JSON
	Nonce      fairdraw.Nonce
}

// Lobbies opens lobbies, and finds their entries and positions.
type Lobbies interface {
	// OpenLobby returns the schedule and the opening of a new lobby. It fails with ErrInvalidSettings,
	// or with errs.ErrBeaconUnavailable if no source shows that the beacon publishes values.
	OpenLobby(ctx context.Context, eventID string, terms LobbyTerms) (Lobby, *LobbyOpening, error)
	// SameBeacon reports whether b is the beacon with which the shuffle of a round was opened.
	SameBeacon(ctx context.Context, eventID string, round Round, b *fairdraw.Beacon) (bool, error)
	// EntryID computes the id of the user's entry in the lobby of a round, whether or not it exists,
	// without reading an entry. ok is false while this replica lacks the secret key of the ids.
	EntryID(ctx context.Context, c Counters, user string) (id uuid.UUID, ok bool, err error)
	// FindEntry returns the user's entry in the lobby of a round, with its position once the lobby is
	// shuffled. It fails with ErrUnavailable until a shuffled lobby is in memory.
	FindEntry(ctx context.Context, c Counters, user string) (r Record, found bool, err error)
	// PositionOf returns the position of an entry of a shuffled lobby, without reading the store.
	// found is false if the lobby is not in memory, or has no such entry.
	PositionOf(eventID string, round Round, id uuid.UUID) (position int64, found bool)
}
