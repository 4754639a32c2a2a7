package room

import (
	"errors"

	"urr.guru/pkg/errs"
)

// Errors returned to visitors and operators.
var (
	ErrInactive = errs.ErrVWRInactive // the event has no active waiting room; visitors go to the event's page
	// ErrUnknown means that this visitor has no position with that id in the current round. The page
	// then asks for a position again.
	ErrUnknown = errs.ErrVWRRequestUnknown
	// ErrSignedOut means that nobody is signed in where that is required, or that the browser has no
	// position with that id, which may be of a user's position or entry.
	ErrSignedOut       = errs.ErrUnauthenticated
	ErrVisitorRequired = errs.ErrVisitorRequired // the caller has no visitor id
	ErrInvalidSettings = errs.ErrInvalidRequest  // the settings contradict each other
	ErrNoEvent         = errs.ErrEventNotFound
	ErrNoPromotion     = errs.ErrPromotionNotFound
	ErrNoCampaign      = errs.ErrCampaignNotFound
	ErrLobbyOpen       = errs.ErrLobbyOpen     // no positions are issued before the start of the room
	ErrLobbyClosed     = errs.ErrLobbyClosed   // the lobby takes no entries at present, or there is none
	ErrLobbyFixed      = errs.ErrLobbyFixed    // a running round has a lobby with other terms
	ErrLobbyNotFound   = errs.ErrLobbyNotFound // nothing is published about a lobby
	// ErrUnavailable means that the store does not answer, or that the event changes too often. The
	// caller may retry.
	ErrUnavailable = errs.ErrUnavailable
)

// ErrStale means that the condition of a write failed: the caller reads the state again and decides
// by it.
var ErrStale = errors.New("room: the event's state has changed")

func invalidSettings(path, message string) error {
	return ErrInvalidSettings.WithFields(errs.Field{Path: path, Message: message})
}
