// Package web renders the gateway's pages and serves their assets.
//
// Pages are shells: the same bytes for everybody per language and sign-in state, rendered once when the process
// starts; their scripts fetch everything else from the API. Who may see a page is decided in front of these handlers.
package web

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
)

//go:embed all:dist
var dist embed.FS

// Config of the pages.
type Config struct {
	// Secure says that browsers reach the gateway by https: pages then ask for every request to be upgraded.
	Secure bool
	// DevLogin shows the development form on /login instead of the link to the identity provider.
	DevLogin bool
}

// Pages holds every page and asset, ready to send. Its handlers are safe for concurrent use and answer GET and HEAD.
type Pages struct {
	// WaitingRoom is `/vwr/{eventId}`: the same static file for every event and visitor, which a CDN may keep.
	WaitingRoom http.Handler
	// Assets is `/assets/{file}`: scripts and styles, named by their content, immutable.
	Assets http.Handler
	// Robots is `/robots.txt`: what crawlers may read.
	Robots http.Handler
	// DocsScript and DocsStyles are the addresses of the renderer of the API's reference; empty before the pages are built.
	DocsScript string
	DocsStyles []string

	shells map[string]*shell
	// noEvent and refusal are nil before the pages are built.
	noEvent *shell
	refusal *refusal
}

// New reads what the bundler left in dist and renders every page. Without a bundle each page says how to build it;
// a bundle that lacks a page is an error.
func New(cfg Config) (*Pages, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("open embedded pages: %w", err)
	}
	return newPages(files, cfg)
}

// Page is the page of a name, as "events"; nil when there is none.
func (p *Pages) Page(name string) http.Handler {
	if s, ok := p.shells[name]; ok {
		return s
	}
	return nil
}
