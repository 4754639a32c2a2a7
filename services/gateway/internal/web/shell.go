package web

import (
	"html/template"
	"net/http"
	"strconv"

	"urr.guru/services/gateway/internal/language"
)

const htmlType = "text/html; charset=utf-8"

// sharedFor has, by page, for how many seconds caches may keep a page that is the same for
// everybody: at most as long as old assets are served after a release. All others are private.
var sharedFor = map[string]int{"events": 60, "promo": 60, "campaign": 60, "draw": 60, "queue": 60, "login": 60, "event": 1} //nolint:gochecknoglobals // a constant

// sharedGroups are groups of sentences, by page, that some other pages use too.
var sharedGroups = map[string][]string{ //nolint:gochecknoglobals // a constant
	"event": {"presale"}, "my": {"transfer"}, "transfers": {"transfer", "checkout"}, "memberships": {"checkout", "joining"},
}

// pageShell is a page in every language. It is the same for everybody who requests it.
type pageShell struct {
	status int
	csp    string
	shared int // seconds for which caches may keep it; 0: it is private
	bodies map[string]*encodedContent
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

// pageFrame has what all pages have in common.
type pageFrame struct {
	template   *template.Template
	catalogues map[string]catalogue
	clock      string
	cfg        Config
}

// render renders a page in one language. refusal is nil except for the error page.
func (f *pageFrame) render(name string, e bundleEntry, lang string, refusal *refusalText) ([]byte, error) {
	c := f.catalogues[lang]
	strings, err := c.textGroups(append([]string{"common", "wait", "sale", "reward", "request", "refund", name}, sharedGroups[name]...)...)
	if err != nil {
		return nil, err
	}
	title := c[name]["title"]
	if refusal != nil && refusal.Title != "" {
		title = refusal.Title
	}
	return executeTemplate(f.template, map[string]any{
		"Lang": lang, "Entry": e, "S": c, "Title": title, "Page": name, "Icon": iconDataURL(), "Refusal": refusal,
		"Data": pageData{
			Page: name, Lang: lang, DevLogin: f.cfg.DevLogin, Provider: f.cfg.Provider, Rewards: f.cfg.Rewards, Promotions: f.cfg.Promotions, Clock: f.clock, Strings: strings,
		},
	})
}

func newPageShell(f *pageFrame, name string, e bundleEntry) (*pageShell, error) {
	s, err := renderAll(f, name, e, http.StatusOK, func(catalogue) *refusalText { return nil })
	if err == nil {
		s.shared = sharedFor[name]
	}
	return s, err
}

// renderAll renders a page in every language. refusal returns the text of an error page, nil for
// other pages.
func renderAll(f *pageFrame, name string, e bundleEntry, status int, refusal func(catalogue) *refusalText) (*pageShell, error) {
	s := &pageShell{status: status, csp: contentSecurity(f.cfg), bodies: make(map[string]*encodedContent, len(f.catalogues))}
	for lang, c := range f.catalogues {
		body, err := f.render(name, e, lang, refusal(c))
		if err != nil {
			return nil, err
		}
		s.bodies[lang] = newContent(htmlType, body)
	}
	return s, nil
}

// ServeHTTP serves the page. Only a CDN that has determined the language may share it: other caches
// do not know the cookie of the language, and would mix up the languages.
func (s *pageShell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if s.shared > 0 && language.FromCDN(r.Header) != "" {
		h.Set("Cache-Control", "public, max-age=0, s-maxage="+strconv.Itoa(s.shared))
		h.Add("Vary", language.CDNHeader)
		h.Del("X-Request-Id") // of the request that fills the cache
	} else {
		h.Set("Cache-Control", "private, no-cache")
		h.Add("Vary", "Accept-Language, Cookie, "+language.CDNHeader)
	}
	h.Set("Content-Security-Policy", s.csp)
	setSecurityHeaders(h)
	s.bodies[language.Of(r.Header)].serve(w, r, s.status)
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
