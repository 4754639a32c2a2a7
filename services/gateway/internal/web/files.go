package web

import (
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed robots.txt
var robotsText []byte

//go:embed icon.svg
var iconSource string

// iconDataURL returns the icon of the site as a data URL, so that no page needs a request for it.
func iconDataURL() template.URL {
	return template.URL("data:image/svg+xml," + url.PathEscape(iconSource)) //nolint:gosec // a file of this package
}

type robots struct{ text *encodedContent }

func newRobots() robots { return robots{newContent("text/plain; charset=utf-8", robotsText)} }

func (f robots) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("X-Content-Type-Options", "nosniff")
	f.text.serve(w, r, http.StatusOK)
}
