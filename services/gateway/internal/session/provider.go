package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/oidc"
)

// Provider is an identity provider.
type Provider interface {
	// Begin returns the URL of its sign-in page for an attempt.
	Begin(ctx context.Context, a *claims.SignIn) (string, error)
	// Complete exchanges the code of an attempt for its user. Its errors are those of package oidc.
	Complete(ctx context.Context, a *claims.SignIn, code string) (*oidc.User, error)
	// EndSession returns the URL that ends the provider's session; "" when there is none.
	EndSession(ctx context.Context, idToken string) (string, error)
}

// LoginPath is where a sign-in at the provider begins.
const LoginPath = "/api/v1/auth/login"

// These limit the response headers of a sign-in, in bytes. With the session they stay below 4096,
// which proxies accept by default.
const (
	maxIDToken = 1560
	// plainSession is the length of a session's token without an e-mail address and claims. A longer
	// one leaves less room for the ID token.
	plainSession = 350
	maxClaims    = 512
	maxReturnTo  = 1024
)

// hintLife is how much longer than the session the cookie with the ID token lasts: open pages still
// offer to sign out then, and the provider's session may last longer.
const hintLife = 24 * time.Hour

// maxAttempts is how many sign-in attempts a browser keeps, one per tab. It is low, since every
// request carries their cookies, and proxies refuse requests whose headers are too large.
const maxAttempts = 3

// The longest error code of the provider and the longest cause in a log line, in bytes.
const (
	maxErrorCode = 64
	maxCause     = 500
)

// Login redirects the browser to the identity provider's sign-in page. The attempt is kept in a cookie,
// so that any gateway can complete it.
func (h *Handlers) Login(w http.ResponseWriter, r *http.Request, _ *edge.Request) error {
	query := r.URL.Query()
	returnTo := ownPath(query.Get("returnTo"))
	if !query.Has(homeParam) && !sameHost(h.Home, r.Host) {
		redirect(w, h.Home.String()+LoginPath+"?"+url.Values{"returnTo": {returnTo}, homeParam: {"1"}}.Encode())
		return nil
	}
	attempt := claims.NewSignIn(returnTo, h.Now())
	page, err := h.Provider.Begin(r.Context(), attempt)
	if err != nil {
		h.redirectFailed(w, r, attempt.ReturnTo, err)
		return nil
	}
	signed, err := h.Tokens.SignAttempt(attempt)
	if err != nil {
		return err
	}
	if earlier := identity.AttemptCookies(r); len(earlier) >= maxAttempts {
		for _, name := range earlier {
			h.Cookies.Clear(w, name)
		}
	}
	h.Cookies.Set(w, identity.AttemptCookie(attempt.State), signed, attempt.Expiry())
	redirect(w, page)
	return nil
}

// Callback receives the browser from the provider, with a code or with a refusal. It begins a session
// and redirects to the page where the sign-in began.
func (h *Handlers) Callback(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	answer := r.URL.Query()
	attempt, err := h.Tokens.Attempt(q.Header, answer.Get("state"))
	if err != nil {
		h.redirectFailed(w, r, "/", fmt.Errorf("%w: %w", errExpired, err))
		return nil
	}
	h.Cookies.Clear(w, identity.AttemptCookie(attempt.State))
	if !h.used.markUsed(r.Context(), attempt) {
		h.redirectFailed(w, r, attempt.ReturnTo, errExpired)
		return nil
	}
	if code := answer.Get("error"); code != "" {
		h.redirectFailed(w, r, attempt.ReturnTo, refusalError(code))
		return nil
	}
	user, err := h.Provider.Complete(r.Context(), attempt, answer.Get("code"))
	if err != nil {
		h.redirectFailed(w, r, attempt.ReturnTo, err)
		return nil
	}
	session, tok, err := h.beginSession(w, r, user.ID, user.Roles, user.Person)
	if err != nil {
		return err
	}
	hint := user.IDToken
	if len(hint) > maxIDToken-max(0, len(tok)-plainSession) {
		hint = identity.IDTokenPlaceholder
	}
	h.Cookies.Set(w, identity.IDTokenCookie, hint, session.Expiry().Add(hintLife))
	signIns.WithLabelValues(outcomeDone).Inc()
	redirect(w, attempt.ReturnTo)
	return nil
}

var (
	errExpired = errors.New("the attempt has expired, was completed, or was begun in another browser")
	errRefused = errors.New("the provider did not sign the user in")
)

// refusalError returns the error for an error code in the provider's answer. (RFC 6749 §4.1.2.1,
// OpenID Connect Core 1.0, section 3.1.2.6)
func refusalError(code string) error {
	kind := oidc.ErrInvalid
	switch code {
	case "access_denied", "login_required", "interaction_required", "consent_required":
		kind = errRefused
	case "server_error", "temporarily_unavailable":
		kind = oidc.ErrUnavailable
	}
	return fmt.Errorf("%w: the provider answers %q", kind, truncate(code, maxErrorCode))
}

// redirectFailed logs and counts a failed sign-in, and redirects to the sign-in page, which
// explains it. It does not count a request that the browser has cancelled: no sign-in has failed.
func (h *Handlers) redirectFailed(w http.ResponseWriter, r *http.Request, returnTo string, cause error) {
	outcome, level := outcomeUnavailable, slog.LevelError
	switch {
	case errors.Is(cause, errExpired):
		outcome, level = outcomeExpired, slog.LevelDebug
	case errors.Is(cause, errRefused):
		outcome, level = outcomeRefused, slog.LevelDebug
	case errors.Is(cause, oidc.ErrInvalid):
		outcome, level = outcomeInvalid, slog.LevelWarn
	}
	if !errors.Is(r.Context().Err(), context.Canceled) {
		signIns.WithLabelValues(outcome).Inc()
		h.logFailure(r.Context(), level, "sign-in failed", outcome, cause)
	}
	redirect(w, "/login?"+url.Values{"returnTo": {returnTo}, "failed": {outcome}}.Encode())
}

// signOutReason is the reason by which log lines about failed sign-outs are counted and limited.
const signOutReason = "sign-out"

// newLogLimit makes the limit of log lines about failures. A crowd may try to sign in while the
// provider does not answer.
func newLogLimit() *telemetry.LogLimit {
	return telemetry.NewLogLimit(outcomeExpired, outcomeRefused, outcomeInvalid, outcomeUnavailable, signOutReason)
}

func (h *Handlers) logFailure(ctx context.Context, level slog.Level, message, reason string, cause error) {
	suppressed, ok := h.lines.Allow(reason)
	if !ok {
		return
	}
	attrs := []any{"outcome", reason, "error", truncate(cause.Error(), maxCause)}
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	h.Log.Log(ctx, level, message, attrs...) //nolint:sloglint // one of two messages of this package
}

// providerLogoutURL returns the URL that ends the provider's session. It returns "" if there is
// none, or while the provider's metadata cannot be read.
func (h *Handlers) providerLogoutURL(ctx context.Context, hint string) string {
	if h.Provider == nil || hint == "" {
		return ""
	}
	if hint == identity.IDTokenPlaceholder {
		hint = ""
	}
	to, err := h.Provider.EndSession(ctx, hint)
	if err != nil {
		h.logFailure(ctx, slog.LevelWarn, "the session at the identity provider goes on after a sign-out", signOutReason, err)
	}
	return to
}

// ownPath returns the path, or "/" if it may lead to another site or is too long for the headers.
func ownPath(p string) string {
	if len(p) > maxReturnTo || !edge.OwnPath(p) {
		return "/"
	}
	return p
}

// homeParam is in the URL of a sign-in that was redirected from another host to Handlers.Home. It
// prevents a second redirect behind a proxy that replaces the header Host.
const homeParam = "home"

// sameHost reports whether the value of a header Host is the host of a URL.
func sameHost(u *url.URL, host string) bool {
	port := ":" + map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

// truncate returns at most maxBytes bytes of a text.
func truncate(text string, maxBytes int) string { return text[:min(maxBytes, len(text))] }

func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}
