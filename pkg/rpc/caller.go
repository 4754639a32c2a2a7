package rpc

import (
	"slices"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// Gateway and Room are the only services whose Caller messages, which contain the user, are trusted.
// Room is the name of the gateway's pods that serve waiting rooms only; no method that it may call
// asks for a role.
const (
	Gateway = "gateway"
	Room    = "room"
)

// CallerFrom returns the field `caller` of a request, never nil. A gateway has verified it;
// requests with a Caller from any other service never reach a handler.
func CallerFrom(msg any) *commonv1.Caller {
	if m, ok := msg.(interface{ GetCaller() *commonv1.Caller }); ok {
		if c := m.GetCaller(); c != nil {
			return c
		}
	}
	return &commonv1.Caller{}
}

// UserFrom returns the id of the signed-in user; without one it fails with errs.ErrUnauthenticated.
func UserFrom(msg any) (string, error) {
	if id := CallerFrom(msg).GetUserId(); id != "" {
		return id, nil
	}
	return "", errs.ErrUnauthenticated
}

// ValidUserFrom is like UserFrom, for an id that becomes part of keys: it fails with
// errs.ErrInvalidID for a malformed id.
func ValidUserFrom(msg any) (string, error) {
	user, err := UserFrom(msg)
	if err == nil && !ids.ValidUser(user) {
		return "", errs.ErrInvalidID
	}
	return user, err
}

// HasRole reports whether the caller has a role ("staff", "admin").
func HasRole(c *commonv1.Caller, role string) bool { return slices.Contains(c.GetRoles(), role) }

// RequireRole returns the user if the caller has one of the roles. Otherwise it fails with
// errs.ErrUnauthenticated, or with errs.ErrRoleRequired, which contains the first role.
func RequireRole(msg any, role string, others ...string) (string, error) {
	user, err := UserFrom(msg)
	has := func(role string) bool { return HasRole(CallerFrom(msg), role) }
	if err == nil && !has(role) && !slices.ContainsFunc(others, has) {
		return "", errs.ErrRoleRequired.With("role", role)
	}
	return user, err
}
