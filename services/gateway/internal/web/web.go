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
	// Secure is set when browsers use https: pages then ask for every request to be upgraded.
	Secure bool
	// DevLogin shows the development form on /login, Provider the link to the identity provider.
	DevLogin, Provider bool
	// Rewards and Promotions are set where these services are deployed.
	Rewards, Promotions bool
	// Pay has the settings of the payment host, if there is one.
	Pay PayConfig
}

// Pages holds every page and asset, ready to send. Its handlers are safe for concurrent use and
// answer GET and HEAD.
type Pages struct {
	// WaitingRoom is `/vwr/{eventId}`: the same static file for every event and visitor, which a
	// CDN may keep.
	WaitingRoom http.Handler
	Assets      http.Handler // `/assets/{file}`
	Robots      http.Handler // `/robots.txt`
	// Pay serves the payment host; nil without Config.Pay.
	Pay http.Handler
	// DocsScript and DocsStyles are the URLs of the renderer of the API reference; empty before the
	// pages are built.
	DocsScript string
	DocsStyles []string

	shells map[string]*pageShell
	// noEvent and refusal are nil before the pages are built.
	noEvent *pageShell
	refusal *errorPage
}

// New reads the output of the bundler in dist and renders every page. Without a bundle each page
// explains how to build it; a bundle that lacks a page is an error.
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

// Private returns a page as Page does, which caches must not share.
func (p *Pages) Private(name string) http.Handler {
	s, ok := p.shells[name]
	if !ok {
		return nil
	}
	private := *s
	private.shared = 0
	return &private
}
