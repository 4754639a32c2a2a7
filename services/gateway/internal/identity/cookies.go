package identity

import (
	"net/http"
	"time"
)

// AnonLife is how long a browser keeps its visitor's id: longer than any sale.
const AnonLife = 30 * 24 * time.Hour

// Cookies writes the platform's cookies: HttpOnly, for every path, and over https only where Secure.
type Cookies struct {
	Secure bool
	Now    func() time.Time
}

// Set writes a cookie that ends at an instant; one that has ended already is deleted. The entry token is Strict, all others Lax: who
// comes by a link from elsewhere keeps the session, but is not let into the shop by that click.
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
