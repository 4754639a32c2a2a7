package web

import (
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"urr.guru/services/gateway/internal/language"
)

// PayConfig has the settings of the page on which the script of Toss Payments runs.
type PayConfig struct {
	// ClientKey is the shop's public key at Toss; empty: there is no such page. Script is the address
	// of the script. Shop is the address of this gateway in browsers.
	ClientKey, Script, Shop string
}

// tossPath is the path of the only page of the payment host.
const tossPath = "/toss"

// payHost serves the payment host. It is a separate host, so that somebody else's script runs
// without the shop's cookies and API. It has one page and the files that the page loads. The
// fragment of the page's address says what is paid, and no server gets it. The page leads only to
// the vendor and back to Shop, whatever its address contains.
type payHost struct {
	csp    string
	pages  map[string]*encodedContent // by language
	assets http.Handler
	files  []string // the assets of the page
}

// payData is the JSON block that the script of the page reads.
type payData struct {
	Lang      string            `json:"lang"`
	ClientKey string            `json:"clientKey"`
	Script    string            `json:"script"`
	Shop      string            `json:"shop"`
	Strings   map[string]string `json:"strings"`
}

func newPayHost(catalogues map[string]catalogue, m bundleManifest, assets http.Handler, cfg Config) (*payHost, error) {
	policy, err := payPolicy(cfg.Pay.Script)
	if err != nil {
		return nil, fmt.Errorf("address of the payments' script: %w", err)
	}
	if m.Pay.Module == "" {
		return nil, errors.New("the bundle has no page of payments: build the pages again")
	}
	tmpl, err := parseTemplate("pay.html")
	if err != nil {
		return nil, err
	}
	h := &payHost{
		csp: policy + upgradeDirective(cfg), pages: map[string]*encodedContent{}, assets: assets,
		files: append([]string{m.Pay.Module}, m.Pay.Styles...),
	}
	for lang, c := range catalogues {
		body, err := executeTemplate(tmpl, map[string]any{
			"Lang": lang, "Entry": m.Pay, "S": c, "Icon": iconDataURL(), "Shop": template.URL(cfg.Pay.Shop), //nolint:gosec // a setting
			"Data": payData{Lang: lang, ClientKey: cfg.Pay.ClientKey, Script: cfg.Pay.Script, Shop: cfg.Pay.Shop, Strings: c["pay"]},
		})
		if err != nil {
			return nil, err
		}
		h.pages[lang] = newContent(htmlType, body)
	}
	return h, nil
}

// payPolicy returns the policy of the page: it allows the vendor's script, and what that may need
// from the vendor's sites. The page cannot load from, call or send a form to any other site.
func payPolicy(script string) (string, error) {
	u, err := url.Parse(script)
	if err != nil {
		return "", err
	}
	origin := u.Scheme + "://" + u.Host
	sites := origin
	if _, domain, _ := strings.Cut(u.Host, "."); strings.Contains(domain, ".") && net.ParseIP(u.Hostname()) == nil {
		sites = u.Scheme + "://*." + domain
	}
	return "default-src 'none'; script-src 'self' " + origin + "; style-src 'self'; img-src data: " + sites + "; connect-src " + sites +
		"; frame-src " + sites + "; form-action " + sites + "; base-uri 'none'; frame-ancestors 'none'", nil
}

func (p *payHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	switch {
	case slices.Contains(p.files, r.URL.Path):
		p.assets.ServeHTTP(w, r)
		return
	case r.URL.Path != tossPath:
		http.NotFound(w, r)
		return
	}
	lang := r.URL.Query().Get("lang")
	if p.pages[lang] == nil {
		lang = language.Of(r.Header)
	}
	h.Set("Cache-Control", "private, no-cache")
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", p.csp)
	setSecurityHeaders(h)
	// The script may open another window. The vendor learns only from which host the buyer came.
	h.Set("Cross-Origin-Opener-Policy", "same-origin-allow-popups")
	h.Set("Referrer-Policy", "strict-origin")
	p.pages[lang].serve(w, r, http.StatusOK)
}
