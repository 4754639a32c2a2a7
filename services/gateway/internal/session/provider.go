package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"urr.guru/pkg/claims"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/oidc"
)

// Provider is an identity provider.
type Provider interface {
	// Begin returns the URL of its sign-in page for an attempt.
	Begin(ctx context.Context, a *claims.SignIn) (string, error)
	// Complete returns who has signed in, by the code that the browser brought back. Its errors are
	// those of package oidc.
	Complete(ctx context.Context, a *claims.SignIn, code string) (*oidc.User, error)
	// EndSession returns the URL where the browser ends its session there; "": there is none.
	EndSession(idToken string) string
}

// maxIDToken is the longest ID token, in bytes, that is kept for the sign-out: browsers keep cookies
// of up to 4096.
const maxIDToken = 3800

// Login sends the browser to the identity provider. The attempt is kept in the browser, so that any
// gateway can complete it.
func (h *Handlers) Login(w http.ResponseWriter, r *http.Request, _ *edge.Request) error {
	attempt := claims.NewSignIn(ownPath(r.URL.Query().Get("returnTo")), h.Now())
	page, err := h.Provider.Begin(r.Context(), attempt)
	if err != nil {
		h.failed(w, r, attempt.ReturnTo, err)
		return nil
	}
	sealed, err := h.Tokens.SignAttempt(attempt)
	if err != nil {
		return err
	}
	h.Cookies.Set(w, identity.AttemptCookie(attempt.State), sealed, attempt.Expiry())
	redirect(w, page)
	return nil
}

// Callback is where the provider sends the browser back to, with a code or with a refusal. It begins
// a session and leads back to where the sign-in began.
func (h *Handlers) Callback(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	answer := r.URL.Query()
	attempt, err := h.Tokens.Attempt(q.Header, answer.Get("state"))
	if err != nil {
		h.failed(w, r, "/", fmt.Errorf("%w: %w", errExpired, err))
		return nil
	}
	h.Cookies.Clear(w, identity.AttemptCookie(attempt.State)) // it counts once
	if answer.Get("error") != "" {
		h.failed(w, r, attempt.ReturnTo, errRefused)
		return nil
	}
	user, err := h.Provider.Complete(r.Context(), attempt, answer.Get("code"))
	if err != nil {
		h.failed(w, r, attempt.ReturnTo, err)
		return nil
	}
	session, _, err := h.begin(w, r, user.ID, user.Roles)
	if err != nil {
		return err
	}
	if len(user.IDToken) <= maxIDToken {
		h.Cookies.Set(w, identity.IDTokenCookie, user.IDToken, session.Expiry())
	}
	signIns.WithLabelValues(outcomeDone).Inc()
	redirect(w, attempt.ReturnTo)
	return nil
}

var (
	errExpired = errors.New("the attempt has expired, was completed, or was begun in another browser")
	errRefused = errors.New("the provider did not sign the user in")
)

// failed leads back to the sign-in page, which says what happened.
func (h *Handlers) failed(w http.ResponseWriter, r *http.Request, returnTo string, cause error) {
	outcome := outcomeUnavailable
	switch {
	case errors.Is(cause, errExpired):
		outcome = outcomeExpired
	case errors.Is(cause, errRefused):
		outcome = outcomeRefused
	case errors.Is(cause, oidc.ErrInvalid):
		outcome = outcomeInvalid
	}
	signIns.WithLabelValues(outcome).Inc()
	h.Log.WarnContext(r.Context(), "sign-in failed", "outcome", outcome, "error", cause)
	redirect(w, "/login?"+url.Values{"returnTo": {returnTo}, "failed": {outcome}}.Encode())
}

// endAtProvider answers a sign-out with where the browser ends its session at the provider too; false
// when it has none there.
func (h *Handlers) endAtProvider(header http.Header) (to string, found bool) {
	hint := identity.IDToken(header)
	if h.Provider == nil || hint == "" {
		return "", false
	}
	to = h.Provider.EndSession(hint)
	return to, to != ""
}

// ownPath is the path, or "/" if it may lead to another site.
func ownPath(p string) string {
	if !edge.OwnPath(p) {
		return "/"
	}
	return p
}

func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}
