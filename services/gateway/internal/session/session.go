// Package session signs users in and out: at an identity provider or, for development, without a
// password. Each of these ways exists only if it is configured.
package session

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/identity"

	gatewayv1 "urr.guru/proto/gen/urr/gateway/v1"
)

// Roles that a session can have.
const (
	RoleAdmin = "admin"
	RoleStaff = "staff"
)

// Revoker revokes sessions on all gateways.
type Revoker interface {
	// RevokeSessions revokes single sessions by their ids.
	RevokeSessions(ctx context.Context, ids ...string) error
	// RevokeUser revokes all sessions of a user that were issued until now.
	RevokeUser(ctx context.Context, userID string) error
	// IssueTime returns the time of issue for a new session of a user.
	IssueTime(ctx context.Context, userID string) time.Time
}

// Config has the settings and the parts that Handlers need.
type Config struct {
	Tokens  *identity.Verifier
	Cookies identity.Cookies
	Revoked Revoker
	// Provider is the identity provider; nil: there is none.
	Provider Provider
	// Home is the gateway's URL to which the provider redirects browsers. A sign-in begins there too,
	// since the cookie of an attempt belongs to one host.
	Home *url.URL
	// Redis remembers which sign-in attempts were used; nil: each gateway remembers its own.
	Redis redis.UniversalClient
	Log   *slog.Logger
	// Life is how long a session lasts.
	Life time.Duration
	Now  func() time.Time
}

// Handlers serves the routes under /api/v1/auth and /api/v1/admin/sessions.
type Handlers struct {
	Config

	used  *usedAttempts
	lines *telemetry.LogLimit
}

// New makes the handlers of sign-in, sign-out and the revocation of sessions.
func New(cfg Config) (*Handlers, error) {
	used, err := newUsedAttempts(cfg.Redis, cfg.Now)
	if err != nil {
		return nil, err
	}
	return &Handlers{Config: cfg, used: used, lines: newLogLimit()}, nil
}

func (h *Handlers) DevLogin(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	in, _ := q.Message.(*gatewayv1.DevLoginRequest) // the route's message
	if !ids.ValidUser(in.GetUserId()) {
		return errs.ErrInvalidID.WithFields(errs.Field{Path: "userId", Message: "must be 1–63 of [A-Za-z0-9._@+-]"})
	}
	for _, role := range in.GetRoles() {
		if role != RoleAdmin && role != RoleStaff {
			return errs.ErrInvalidRequest.WithFields(errs.Field{Path: "roles", Message: "must be admin or staff"})
		}
	}
	for i, c := range in.GetClaims() {
		if !strings.Contains(c, "=") {
			return errs.ErrInvalidRequest.WithFields(errs.Field{Path: fmt.Sprintf("claims[%d]", i), Message: "must be name=value"})
		}
	}
	person := claims.Person{Email: strings.ToLower(in.GetEmail()), Claims: in.GetClaims()}
	session, tok, err := h.beginSession(w, r, in.GetUserId(), in.GetRoles(), person)
	if err != nil {
		return err
	}
	answer := toMessage(session)
	answer.Token = &tok
	return handlers.WriteMessage(w, http.StatusOK, answer)
}

// beginSession makes a session, sets its cookie, and returns the session and its token.
func (h *Handlers) beginSession(
	w http.ResponseWriter, r *http.Request, userID string, roles []string, person claims.Person,
) (*claims.Session, string, error) {
	end := h.Now().Add(h.Life)
	kept := keptClaims(person.Claims)
	if dropped := len(person.Claims) - len(kept); dropped > 0 {
		h.Log.WarnContext(r.Context(), "claims left out of a session: they are too long", "user_id", userID, "claims", dropped)
	}
	session := claims.NewSession(userID, roles, h.Revoked.IssueTime(r.Context(), userID), end)
	session.Person = claims.Person{Email: person.Email, Claims: kept}
	tok, err := h.Tokens.SignSession(session)
	if err != nil {
		return nil, "", err
	}
	h.Cookies.Set(w, identity.SessionCookie, tok, end)
	return session, tok, nil
}

func (h *Handlers) Me(w http.ResponseWriter, _ *http.Request, q *edge.Request) error {
	return handlers.WriteMessage(w, http.StatusOK, toMessage(q.Session))
}

// keptClaims returns as many of the first claims as fit into maxClaims bytes of JSON, the form in
// which a session's token has them.
func keptClaims(all []string) []string {
	size := 0
	for i, c := range all {
		text, _ := json.Marshal(c) // a string can be written
		if size += len(text) + 1; size > maxClaims {
			return all[:i]
		}
	}
	return all
}

func toMessage(s *claims.Session) *gatewayv1.Session {
	m := &gatewayv1.Session{UserId: s.UserID, Roles: s.Roles, ExpiresAt: timestamppb.New(s.Expiry()), SessionId: s.ID}
	if s.Email != "" {
		m.Email = &s.Email
	}
	return m
}

// Logout revokes the sessions of this browser, including copies of their tokens, and clears the
// entry token. If the revocation cannot be stored, it fails and changes nothing. A user who signed
// in at the identity provider gets the URL that ends the session there, even after the session here
// has ended: on a shared computer the provider's session would sign in the next user.
func (h *Handlers) Logout(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	var sessionIDs []string
	for _, s := range h.Tokens.Sessions(q.Header) {
		sessionIDs = append(sessionIDs, s.ID)
	}
	if err := h.Revoked.RevokeSessions(r.Context(), sessionIDs...); err != nil {
		return err
	}
	h.Cookies.Clear(w, identity.SessionCookie)
	h.Cookies.Clear(w, identity.EntryCookie)
	w.Header().Set("Cache-Control", "no-store")
	hint := identity.IDToken(q.Header)
	if hint != "" {
		h.Cookies.Clear(w, identity.IDTokenCookie)
	}
	if to := h.providerLogoutURL(r.Context(), hint); to != "" {
		return handlers.WriteMessage(w, http.StatusOK, &gatewayv1.SignedOut{RedirectTo: to})
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Revoke lets an operator revoke one session, or all sessions of a user, for example after a change
// of roles.
func (h *Handlers) Revoke(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	in, _ := q.Message.(*gatewayv1.RevokeSessionsRequest) // the route's message
	user, session := in.GetUserId(), in.GetSessionId()
	var err error
	switch {
	case (user == "") == (session == ""):
		return errs.ErrInvalidRequest.WithFields(errs.Field{Path: "userId", Message: "either userId or sessionId must be given"})
	case user != "" && !ids.ValidUser(user):
		return errs.ErrInvalidID.WithFields(errs.Field{Path: "userId", Message: "must be 1–63 of [A-Za-z0-9._@+-]"})
	case session != "" && !ids.ValidUUID(session):
		return errs.ErrInvalidID.WithFields(errs.Field{Path: "sessionId", Message: "must be a UUID"})
	case user != "":
		err = h.Revoked.RevokeUser(r.Context(), user)
	default:
		err = h.Revoked.RevokeSessions(r.Context(), session)
	}
	if err != nil {
		return err
	}
	h.Log.InfoContext(r.Context(), "sessions revoked", "by", q.User(), "user_id", user, "session_id", session)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
