package identity

import (
	"net/http"
	"strings"
	"time"
)

// AnonLife is how long a browser keeps the visitor id. It is longer than any sale.
const AnonLife = 30 * 24 * time.Hour

// Cookies writes the platform's cookies: Secure if browsers use https, HttpOnly except for
// SignedInCookie, and for every path unless only the sign-in or the sign-out reads them.
type Cookies struct {
	// Secure says that browsers use https. The cookies of session, visitor and sign-in attempts then
	// have the prefix hostPrefix, which binds them to this host. The tokens of both tiers keep their
	// names, since a CDN may read them.
	Secure bool
	Now    func() time.Time
}

// Set writes a cookie that expires at end, or deletes it if end has passed. The entry token is
// SameSite=Strict, all other cookies are Lax. So a link from another site carries the session, but
// not the entry token.
func (c Cookies) Set(w http.ResponseWriter, name, value string, end time.Time) {
	age := int(end.Sub(c.Now()) / time.Second)
	if age < 1 {
		c.Clear(w, name)
		return
	}
	c.write(w, &http.Cookie{Name: name, Value: value, MaxAge: age})
}

func (c Cookies) Clear(w http.ResponseWriter, name string) {
	c.write(w, &http.Cookie{Name: name, MaxAge: -1})
}

func (c Cookies) write(w http.ResponseWriter, ck *http.Cookie) {
	ck.HttpOnly, ck.Secure, ck.SameSite = true, c.Secure, http.SameSiteLaxMode
	if ck.Name == EntryCookie {
		ck.SameSite = http.SameSiteStrictMode
	}
	ck.Path = cookiePath(ck.Name, c.Secure)
	name := ck.Name
	ck.Name = cookieName(name, c.Secure)
	if name == SessionCookie {
		http.SetCookie(w, signedInHint(ck))
	}
	http.SetCookie(w, ck)
	if name == IDTokenCookie {
		ck.Path = logoutAlias
		if ck.Value != "" {
			ck.Value = IDTokenPlaceholder
		}
		http.SetCookie(w, ck)
	}
}

// SignedInCookie shows scripts that a session exists: they cannot read the session's cookie, and
// their pages are the same for everybody. It gives no rights.
const SignedInCookie = "urr-signed-in"

// signedInHint returns SignedInCookie, which is set and cleared with the session's cookie.
func signedInHint(session *http.Cookie) *http.Cookie {
	hint := *session
	hint.Name, hint.HttpOnly = SignedInCookie, false
	if hint.Value != "" {
		hint.Value = "1"
	}
	return &hint
}

// The sign-out has two paths, and browsers get a cookie with the ID token for each. The cookie for
// the alias has a placeholder, since response headers have no room for two ID tokens.
const (
	logoutPath  = "/api/v1/auth/logout"
	logoutAlias = "/api/auth/logout"
)

// IDTokenPlaceholder is used for an ID token that is not kept. It shows that the session began at
// the identity provider, and overwrites the token of the browser's former user.
const IDTokenPlaceholder = "-"

func cookiePath(name string, secure bool) string {
	switch {
	case strings.HasPrefix(name, attemptCookie) && !secure: // with secure, hostPrefix requires the path /
		return "/api/v1/auth/callback"
	case name == IDTokenCookie:
		return logoutPath
	}
	return "/"
}
