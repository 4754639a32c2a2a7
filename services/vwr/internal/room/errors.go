package room

import (
	"errors"

	"urr.guru/pkg/errs"
)

// What visitors and operators are told.
var (
	// ErrInactive: the event has no active waiting room; visitors go to the event's page.
	ErrInactive = errs.ErrVWRInactive
	// ErrUnknown: no position of the present round by that id and for that visitor; the page assigns again.
	ErrUnknown = errs.ErrVWRRequestUnknown
	// ErrVisitorRequired: the caller has no visitor id.
	ErrVisitorRequired = errs.ErrVisitorRequired
	// ErrInvalidSettings: the settings make no sense together.
	ErrInvalidSettings = errs.ErrInvalidRequest
	// ErrNoEvent: nobody has made an event, a promotion or a campaign of that id.
	ErrNoEvent = errs.ErrEventNotFound
	// ErrUnavailable: the store does not answer, or the event changes too fast; trying again is right.
	ErrUnavailable = errs.ErrUnavailable
)

// ErrStale is the answer of a conditional write whose condition does not hold any more: the caller reads again and decides anew.
var ErrStale = errors.New("room: the event's state has changed")

func invalid(path, message string) error {
	return ErrInvalidSettings.WithFields(errs.Field{Path: path, Message: message})
}
