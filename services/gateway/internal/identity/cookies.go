package identity

import (
	"net/http"
	"strings"
	"time"
)

// AnonLife is how long a browser keeps the visitor id: longer than any sale.
const AnonLife = 30 * 24 * time.Hour

// Cookies writes the platform's cookies: HttpOnly, with Secure for https only, and for every path
// except those that only the sign-in or the sign-out reads.
type Cookies struct {
	// Secure is whether browsers use https. Session, visitor and attempts then have names that bind them
	// to this host (hostPrefix). The tokens of both tiers keep theirs, which a CDN may read.
	Secure bool
	Now    func() time.Time
}

// Set writes a cookie that expires at end, or deletes it if that has passed. The entry token is
// SameSite=Strict, all others are Lax, so that a link from another site carries the session, but not
// the entry token.
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
	http.SetCookie(w, ck)
	if name == IDTokenCookie {
		ck.Path = logoutAlias
		if ck.Value != "" {
			ck.Value = IDTokenPlaceholder
		}
		http.SetCookie(w, ck)
	}
}

// The sign-out has two paths. Its alias gets a placeholder instead of the ID token, since the headers
// of a response have no room for a second one.
const (
	logoutPath  = "/api/v1/auth/logout"
	logoutAlias = "/api/auth/logout"
)

// IDTokenPlaceholder stands for an ID token that is not kept: the session began at the identity
// provider, which may ask the user at the sign-out. It overwrites the token of the browser's last user.
const IDTokenPlaceholder = "-"

func cookiePath(name string, secure bool) string {
	switch {
	case strings.HasPrefix(name, attemptCookie) && !secure: // else its name requires the path /
		return "/api/v1/auth/callback"
	case name == IDTokenCookie:
		return logoutPath
	}
	return "/"
}
