package web

import (
	"fmt"
	"io/fs"
	"net/http"
)

// waitingRoomPage is the tier-1 page: one file for every event, visitor and language, so that a CDN
// can serve it to a whole crowd.
type waitingRoomPage struct {
	page *encodedContent
	csp  string
}

func newWaitingRoomPage(files fs.FS, m bundleManifest, cfg Config) (*waitingRoomPage, error) {
	page, err := readContent(files, m.WaitingRoom.File, htmlType)
	if err != nil {
		return nil, err
	}
	if m.WaitingRoom.Script == "" || m.WaitingRoom.Style == "" {
		return nil, fmt.Errorf("the manifest has no hashes for %s: build the pages again", m.WaitingRoom.File)
	}
	// The page's clock is a worker made from a blob, since the page may load no files. So this page,
	// unlike all others, allows worker-src blob:.
	csp := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; img-src data:; "+
		"worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", m.WaitingRoom.Script, m.WaitingRoom.Style)
	return &waitingRoomPage{page: page, csp: csp + upgradeDirective(cfg)}, nil
}

func (p *waitingRoomPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	// The response sets and reads no cookie, so it may be shared.
	h.Set("Cache-Control", "public, max-age=0, s-maxage=300, stale-while-revalidate=60, stale-if-error=86400")
	h.Set("Content-Security-Policy", p.csp)
	setSecurityHeaders(h)
	p.page.serve(w, r, http.StatusOK)
}
