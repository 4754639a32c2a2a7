// Package rpc serves this module's gRPC services, and converts between messages and domain types.
package rpc

import (
	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	"urr.guru/services/ticket/internal/event"
)

const (
	// roleAdmin is the role that operators' calls require. The gateway has checked it too.
	roleAdmin = "admin"
	// roleStaff is the role that calls of doors require, unless the caller is an operator.
	roleStaff = "staff"
	// defaultLimit is the length of a page when the request sets none.
	defaultLimit = 20
)

func pageLimit(limit int32) int {
	if limit == 0 {
		return defaultLimit
	}
	return int(limit)
}

// userInEvent returns the user of a caller. The caller's entry token, which the gateway has
// verified, must be for this event.
func userInEvent(c *commonv1.Caller, eventID string) (user string, err error) {
	switch {
	case c.GetUserId() == "":
		return "", errs.ErrUnauthenticated
	case !ids.ValidUser(c.GetUserId()):
		return "", errs.ErrInvalidID
	case c.GetEventId() == "" || c.GetEventId() != eventID:
		return "", event.ErrWrongEvent
	default:
		return c.GetUserId(), nil
	}
}

func encodeEventCursor(c *event.Cursor) string {
	if c == nil {
		return ""
	}
	return cursor.Moment(c.StartsAt, c.ID)
}

func decodeEventCursor(s string) (c event.Cursor, err error) {
	c.StartsAt, c.ID, err = cursor.ParseMoment(s, ids.ValidEventID)
	return c, err
}
