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
	ck.Path = cookiePath(ck.Name)
	ck.HttpOnly, ck.Secure, ck.SameSite = true, c.Secure, http.SameSiteLaxMode
	if ck.Name == EntryCookie {
		ck.SameSite = http.SameSiteStrictMode
	}
	http.SetCookie(w, ck)
}

func cookiePath(name string) string {
	switch {
	case strings.HasPrefix(name, attemptCookie):
		return "/api/v1/auth/callback"
	case name == IDTokenCookie:
		return "/api/v1/auth/logout"
	}
	return "/"
}
