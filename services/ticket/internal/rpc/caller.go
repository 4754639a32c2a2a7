// Package rpc serves this module's gRPC services, and converts between messages and domain types.
package rpc

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// Cursors are opaque to clients, so that their content may change.

func encodeIDCursor(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func decodeIDCursor(s string) (uuid.UUID, error) {
	if s == "" {
		return uuid.Nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return uuid.Nil, errs.ErrInvalidCursor
	}
	id, err := uuid.FromBytes(b)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, errs.ErrInvalidCursor
	}
	return id, nil
}

func encodeEventCursor(c *event.Cursor) string {
	if c == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.StartsAt.UnixMicro(), 10) + "." + c.ID))
}

// decodeEventCursor refuses times at which no event can start. PostgreSQL lacks some of them.
func decodeEventCursor(s string) (event.Cursor, error) {
	if s == "" {
		return event.Cursor{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return event.Cursor{}, errs.ErrInvalidCursor
	}
	start, id, _ := strings.Cut(string(b), ".")
	micros, err := strconv.ParseInt(start, 10, 64)
	at := time.UnixMicro(micros).UTC()
	if err != nil || !timestamppb.New(at).IsValid() || !ids.ValidEventID(id) {
		return event.Cursor{}, errs.ErrInvalidCursor
	}
	return event.Cursor{StartsAt: at, ID: id}, nil
}
