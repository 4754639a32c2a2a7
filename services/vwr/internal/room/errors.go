package room

import (
	"errors"

	"urr.guru/pkg/errs"
)

// Errors returned to visitors and operators.
var (
	// ErrInactive means that the event has no active waiting room; visitors go to the event's page.
	ErrInactive = errs.ErrVWRInactive
	// ErrUnknown means that this visitor has no position with that id in the current round; the
	// page assigns again.
	ErrUnknown = errs.ErrVWRRequestUnknown
	// ErrSignedOut means that nobody is signed in and that the id is not that of the visitor's position,
	// in a round with a lobby: the id may be that of a user's entry.
	ErrSignedOut = errs.ErrUnauthenticated
	// ErrVisitorRequired means that the caller has no visitor id.
	ErrVisitorRequired = errs.ErrVisitorRequired
	// ErrInvalidSettings means that the settings contradict each other.
	ErrInvalidSettings = errs.ErrInvalidRequest
	// ErrNoEvent means that no event, promotion or campaign has that id.
	ErrNoEvent = errs.ErrEventNotFound
	// ErrLobbyOpen means that no positions are issued before the start of the room.
	ErrLobbyOpen = errs.ErrLobbyOpen
	// ErrLobbyClosed means that the lobby takes no entries at present, or that there is none.
	ErrLobbyClosed = errs.ErrLobbyClosed
	// ErrLobbyFixed means that a running round has another lobby.
	ErrLobbyFixed = errs.ErrLobbyFixed
	// ErrShardsFixed means that a running round has another number of shards.
	ErrShardsFixed = errs.ErrShardsFixed
	// ErrLobbyNotFound means that nothing is published about a lobby.
	ErrLobbyNotFound = errs.ErrLobbyNotFound
	// ErrUnavailable means that the store does not answer, or that the event changes too often; the
	// caller may retry.
	ErrUnavailable = errs.ErrUnavailable
)

// ErrStale means that the condition of a conditional write failed: the caller reads again and
// decides anew.
var ErrStale = errors.New("room: the event's state has changed")

func invalid(path, message string) error {
	return ErrInvalidSettings.WithFields(errs.Field{Path: path, Message: message})
}
