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
	shells map[string]*shell
	room   http.Handler
	assets http.Handler
	robots http.Handler
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

// Events is `/`, the list of sales.
func (p *Pages) Events() http.Handler { return p.shells["events"] }

// Event is `/events/{eventId}`.
func (p *Pages) Event() http.Handler { return p.shells["event"] }

// WaitingRoom is `/vwr/{eventId}`: the same static file for every event and visitor, which a CDN may keep.
func (p *Pages) WaitingRoom() http.Handler { return p.room }

// Queue is `/queue/{eventId}`, the line of tier 2.
func (p *Pages) Queue() http.Handler { return p.shells["queue"] }

// Seats is `/events/{eventId}/seats`, the map of an event with assigned seats.
func (p *Pages) Seats() http.Handler { return p.shells["seats"] }

// Book is `/events/{eventId}/book`: general admission, or the best seats available.
func (p *Pages) Book() http.Handler { return p.shells["book"] }

// Checkout is `/checkout/{reservationId}`.
func (p *Pages) Checkout() http.Handler { return p.shells["checkout"] }

// Tickets is `/my`: the visitor's reservations and tickets.
func (p *Pages) Tickets() http.Handler { return p.shells["my"] }

// Login is `/login`.
func (p *Pages) Login() http.Handler { return p.shells["login"] }

// Robots is `/robots.txt`: what crawlers may read.
func (p *Pages) Robots() http.Handler { return p.robots }

// Assets is `/assets/{file}`: scripts and styles, named by their content, immutable.
func (p *Pages) Assets() http.Handler { return p.assets }
