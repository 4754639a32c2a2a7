// Package web renders the pages of the gateway and serves their assets.
//
// Pages are rendered at the start, once per language, and are the same for everybody.
// Their scripts fetch everything else from the API. Access is checked before these handlers are called.
package web

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
)

//go:embed all:dist
var dist embed.FS

// Config says which features the pages show.
type Config struct {
	// Secure says that browsers use https. Pages then ask for every request to be upgraded.
	Secure bool
	// DevLogin shows the development form on /login. Provider shows the link to the identity provider.
	DevLogin, Provider bool
	// Rewards and Promotions say whether the reward and the ingest service are deployed.
	Rewards, Promotions bool
	// Pay has the settings of the payment host, if there is one.
	Pay PayConfig
}

// Pages has every page and asset, ready to send. Its handlers are safe for concurrent use and
// respond to GET and HEAD.
type Pages struct {
	// WaitingRoom is `/vwr/{eventId}`: the same static file for every event and visitor, so that a CDN
	// can keep it.
	WaitingRoom http.Handler
	Assets      http.Handler // `/assets/{file}`
	Robots      http.Handler // `/robots.txt`
	// Pay serves the payment host; nil without Config.Pay.
	Pay http.Handler
	// DocsScript and DocsStyles are the URLs of the renderer of the API reference. They are empty
	// before the pages are built.
	DocsScript string
	DocsStyles []string

	shells map[string]*pageShell
	// noEvent and refusal are nil before the pages are built.
	noEvent *pageShell
	refusal *errorPage
}

// New reads the output of the bundler in dist and renders every page. Without that output each page
// explains how to build it. It fails if only some pages are missing.
func New(cfg Config) (*Pages, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("open embedded pages: %w", err)
	}
	return newPages(files, cfg)
}

// Page returns the page of a name such as "events"; nil when there is none.
func (p *Pages) Page(name string) http.Handler {
	if s, ok := p.shells[name]; ok {
		return s
	}
	return nil
}

// Private returns the same page as Page, but caches must not share it.
func (p *Pages) Private(name string) http.Handler {
	s, ok := p.shells[name]
	if !ok {
		return nil
	}
	private := *s
	private.shared = 0
	return &private
}
