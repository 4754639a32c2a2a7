package web

import (
	"html/template"
	"net/http"
)

const htmlType = "text/html; charset=utf-8"

// sessionCookie is looked at for its presence only, so that a page knows whether asking who is signed in makes sense.
const sessionCookie = "urr-session"

// variant is what a shell's bytes depend on.
type variant struct {
	lang    string
	session bool
}

// shell is one page in every variant.
type shell struct {
	status int
	csp    string
	bodies map[variant]*content
}

// pageData is what the page's script reads from its JSON block.
type pageData struct {
	Page     string                       `json:"page"`
	Lang     string                       `json:"lang"`
	DevLogin bool                         `json:"devLogin"`
	Clock    string                       `json:"clock"`
	Strings  map[string]map[string]string `json:"strings"`
}

func newShell(t *template.Template, name string, e entry, clock string, catalogues map[string]catalogue, cfg Config) (*shell, error) {
	s := &shell{status: http.StatusOK, csp: contentSecurity(cfg), bodies: make(map[variant]*content, 2*len(catalogues))}
	for lang, c := range catalogues {
		strings, err := c.groups("common", name)
		if err != nil {
			return nil, err
		}
		data := pageData{Page: name, Lang: lang, DevLogin: cfg.DevLogin, Clock: clock, Strings: strings}
		for _, session := range []bool{false, true} {
			body, err := execute(t, map[string]any{
				"Lang": lang, "Session": session, "Entry": e, "S": c, "Title": c[name]["title"], "Page": name, "Data": data,
			})
			if err != nil {
				return nil, err
			}
			s.bodies[variant{lang, session}] = newContent(htmlType, body)
		}
	}
	return s, nil
}

func (s *shell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, err := r.Cookie(sessionCookie)
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Add("Vary", "Accept-Language, Cookie")
	h.Set("Content-Security-Policy", s.csp)
	secure(h)
	s.bodies[variant{lang: Language(r), session: err == nil}].serve(w, r, s.status)
}

// contentSecurity lets a page load from its own origin only and run no inline script or style.
func contentSecurity(cfg Config) string {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	return policy + upgrade(cfg)
}

func upgrade(cfg Config) string {
	if cfg.Secure {
		return "; upgrade-insecure-requests"
	}
	return ""
}

// secure sets the headers that every page needs, whatever stands in front of it.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
