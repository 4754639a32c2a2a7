package identity

import (
	"net/http"
	"time"
)

// AnonLife is how long a browser keeps the visitor id: longer than any sale.
const AnonLife = 30 * 24 * time.Hour

// Cookies writes the cookies of the platform: HttpOnly, for every path, and with Secure for https
// only.
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
	ck.Path, ck.HttpOnly, ck.Secure, ck.SameSite = "/", true, c.Secure, http.SameSiteLaxMode
	if ck.Name == EntryCookie {
		ck.SameSite = http.SameSiteStrictMode
	}
	http.SetCookie(w, ck)
}
