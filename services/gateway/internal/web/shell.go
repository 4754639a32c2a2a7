package web

import (
	"html/template"
	"net/http"

	"urr.guru/services/gateway/internal/language"
)

const htmlType = "text/html; charset=utf-8"

// sessionCookie is the name of the session's cookie over http, secureSessionCookie that over https.
// Only the cookie's existence matters here: with it, the page asks the API who is signed in.
const (
	sessionCookie       = "urr-session"
	secureSessionCookie = "__Host-" + sessionCookie
)

// pageVariant is what the content of a page depends on: the language, and whether somebody is signed
// in.
type pageVariant struct {
	lang    string
	session bool
}

// sharedGroups are the groups of sentences that a page shares with some others.
var sharedGroups = map[string][]string{ //nolint:gochecknoglobals // a constant
	"event": {"presale"}, "my": {"transfer"}, "transfers": {"transfer", "checkout"}, "memberships": {"checkout", "joining"},
}

type pageShell struct {
	status int
	csp    string
	bodies map[pageVariant]*encodedContent
}

// pageData is the JSON block that the script of the page reads.
type pageData struct {
	Page       string                       `json:"page"`
	Lang       string                       `json:"lang"`
	DevLogin   bool                         `json:"devLogin"`
	Provider   bool                         `json:"provider"`
	Rewards    bool                         `json:"rewards"`
	Promotions bool                         `json:"promotions"`
	Clock      string                       `json:"clock"`
	Strings    map[string]map[string]string `json:"strings"`
}

// pageFrame holds what all pages have in common.
type pageFrame struct {
	template   *template.Template
	catalogues map[string]catalogue
	clock      string
	cfg        Config
}

// render renders a page in one variant; refusal is nil except for the error page.
func (f *pageFrame) render(name string, e bundleEntry, v pageVariant, refusal *refusalText) ([]byte, error) {
	c := f.catalogues[v.lang]
	strings, err := c.textGroups(append([]string{"common", "wait", "sale", "reward", "request", "refund", name}, sharedGroups[name]...)...)
	if err != nil {
		return nil, err
	}
	title := c[name]["title"]
	if refusal != nil && refusal.Title != "" {
		title = refusal.Title
	}
	return executeTemplate(f.template, map[string]any{
		"Lang": v.lang, "Session": v.session, "Entry": e, "S": c, "Title": title, "Page": name, "Icon": iconDataURL(), "Refusal": refusal,
		"Data": pageData{
			Page: name, Lang: v.lang, DevLogin: f.cfg.DevLogin, Provider: f.cfg.Provider, Rewards: f.cfg.Rewards, Promotions: f.cfg.Promotions, Clock: f.clock, Strings: strings,
		},
	})
}

func newPageShell(f *pageFrame, name string, e bundleEntry) (*pageShell, error) {
	return renderAll(f, name, e, http.StatusOK, func(catalogue) *refusalText { return nil })
}

// renderAll renders a page in every variant; refusal returns the text of an error page, nil for
// other pages.
func renderAll(f *pageFrame, name string, e bundleEntry, status int, refusal func(catalogue) *refusalText) (*pageShell, error) {
	s := &pageShell{status: status, csp: contentSecurity(f.cfg), bodies: make(map[pageVariant]*encodedContent, 2*len(f.catalogues))}
	for lang, c := range f.catalogues {
		for _, session := range []bool{false, true} {
			v := pageVariant{lang, session}
			body, err := f.render(name, e, v, refusal(c))
			if err != nil {
				return nil, err
			}
			s.bodies[v] = newContent(htmlType, body)
		}
	}
	return s, nil
}

func (s *pageShell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Add("Vary", "Accept-Language, Cookie")
	h.Set("Content-Security-Policy", s.csp)
	setSecurityHeaders(h)
	s.bodies[variantOf(r)].serve(w, r, s.status)
}

func variantOf(r *http.Request) pageVariant {
	_, plain := r.Cookie(sessionCookie)
	_, secure := r.Cookie(secureSessionCookie)
	return pageVariant{lang: language.Of(r.Header), session: plain == nil || secure == nil}
}

// contentSecurity returns the Content-Security-Policy of pages: they load from their own origin only,
// and have no inline scripts and styles.
func contentSecurity(cfg Config) string {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	return policy + upgradeDirective(cfg)
}

func upgradeDirective(cfg Config) string {
	if cfg.Secure {
		return "; upgrade-insecure-requests"
	}
	return ""
}

func setSecurityHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
