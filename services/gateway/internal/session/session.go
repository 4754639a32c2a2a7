// Package session signs people in and out. The development sign-in, which asks for no proof, exists only where it is configured.
package session

import (
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
)

// roles that a session can have.
var roles = []string{"admin", "staff"}

// Handlers of /api/v1/auth.
type Handlers struct {
	Tokens  *identity.Verifier
	Cookies identity.Cookies
	// Life is how long a session lasts.
	Life time.Duration
	Now  func() time.Time
}

// DevLogin gives out a session for any user id and any roles.
func (h *Handlers) DevLogin(w http.ResponseWriter, _ *http.Request, q *edge.Request) error {
	in, _ := q.Message.(*gatewayv1.DevLoginRequest) // the route's message
	if !ids.User(in.GetUserId()) {
		return errs.ErrInvalidID.WithFields(errs.Field{Path: "userId", Message: "must be 1–63 of [A-Za-z0-9._@+-]"})
	}
	for _, r := range in.GetRoles() {
		if !slices.Contains(roles, r) {
			return errs.ErrInvalidRequest.WithFields(errs.Field{Path: "roles", Message: "must be admin or staff"})
		}
	}
	now := h.Now()
	end := now.Add(h.Life)
	tok, err := h.Tokens.SignSession(claims.NewSession(in.GetUserId(), in.GetRoles(), now, end))
	if err != nil {
		return err
	}
	h.Cookies.Set(w, identity.SessionCookie, tok, end)
	return write(w, &gatewayv1.Session{UserId: in.GetUserId(), Roles: in.GetRoles(), Token: &tok, ExpiresAt: timestamppb.New(end)})
}

// Me tells who is signed in.
func (h *Handlers) Me(w http.ResponseWriter, _ *http.Request, q *edge.Request) error {
	return write(w, &gatewayv1.Session{
		UserId: q.Session.UserID, Roles: q.Session.Roles, ExpiresAt: timestamppb.New(q.Session.Expiry()),
	})
}

// Logout ends the session of this browser, and what was entered by it.
func (h *Handlers) Logout(w http.ResponseWriter, _ *http.Request, _ *edge.Request) error {
	h.Cookies.Clear(w, identity.SessionCookie)
	h.Cookies.Clear(w, identity.EntryCookie)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func write(w http.ResponseWriter, s *gatewayv1.Session) error {
	body, err := wire.Marshal(s)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // a client that has gone is no error of ours
	return nil
}
