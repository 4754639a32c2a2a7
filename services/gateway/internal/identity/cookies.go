package identity

import (
	"net/http"
	"strings"
	"time"
)

// AnonLife is how long a browser keeps the visitor id: longer than any sale.
const AnonLife = 30 * 24 * time.Hour

// Cookies writes the cookies of the platform: HttpOnly, and with Secure for https only. They are for
// every path, but for those that only the sign-in or the sign-out reads.
type Cookies struct {
	Secure bool
	Now    func() time.Time
}

// Set writes a cookie that expires at end; one that has expired is deleted. The entry token is
// Strict, all others are Lax: a link from another site keeps the session, but does not carry the
// entry token.
func (c Cookies) Set(w http.ResponseWriter, name, value string, end time.Time) {
	age := int(end.Sub(c.Now()) / time.Second)
	if age < 1 {
		c.Clear(w, name)
		return
	}
	c.write(w, &http.Cookie{Name: name, Value: value, MaxAge: age})
}

// Clear deletes a cookie.
func (c Cookies) Clear(w http.ResponseWriter, name string) {
	c.write(w, &http.Cookie{Name: name, MaxAge: -1})
}

func (c Cookies) write(w http.ResponseWriter, ck *http.Cookie) {
	ck.Path = pathOf(ck.Name)
	ck.HttpOnly, ck.Secure, ck.SameSite = true, c.Secure, http.SameSiteLaxMode
	if ck.Name == EntryCookie {
		ck.SameSite = http.SameSiteStrictMode
	}
	http.SetCookie(w, ck)
}

// pathOf returns the path for which browsers send a cookie.
func pathOf(name string) string {
	switch {
	case strings.HasPrefix(name, attemptCookie):
		return "/api/v1/auth/callback"
	case name == IDTokenCookie:
		return "/api/v1/auth/logout"
	}
	return "/"
}
