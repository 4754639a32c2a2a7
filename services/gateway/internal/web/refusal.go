package web

import (
	"net/http"
	"slices"
	"strings"
)

const refusalPage = "problem"

// errorPage is the error page. Its text differs per request, so it is rendered for each.
type errorPage struct {
	frame *pageFrame
	entry bundleEntry
}

// refusalText is the text of an error page; without a title it has the title of the page.
type refusalText struct{ Title, Detail, Help, Reference string }

// newNoEventPage makes the page of an event that does not exist. Crowds request it when an
// announced address is wrong or too early, so it is rendered once.
func newNoEventPage(f *pageFrame, e bundleEntry) (*pageShell, error) {
	return renderAll(f, refusalPage, e, http.StatusNotFound, func(c catalogue) *refusalText {
		texts := c[refusalPage]
		return &refusalText{Title: texts["noEventTitle"], Detail: texts["noEvent"], Help: texts["noEventHelp"]}
	})
}

// ServeNoEvent shows a person that the event does not exist, with a link to all events. It returns
// false, and has written nothing, for programs and before the pages are built.
func (p *Pages) ServeNoEvent(w http.ResponseWriter, r *http.Request) bool {
	if p.noEvent == nil || !navigates(r) {
		return false
	}
	p.noEvent.ServeHTTP(w, r)
	return true
}

// navigates reports whether a person opened the address in a browser, not a program or a script.
func navigates(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	return !slices.ContainsFunc([]string{"/api/", "/vwr-api/", "/assets/"}, func(api string) bool { return strings.HasPrefix(r.URL.Path, api) })
}

// ServeRefusal shows why a page was refused: a sentence for the user, and for server errors the
// request id for operators. It returns false, and has written nothing, for programs and before the
// pages are built.
func (p *Pages) ServeRefusal(w http.ResponseWriter, r *http.Request, status int, detail, requestID string) bool {
	if p.refusal == nil || !navigates(r) {
		return false
	}
	v := variantOf(r)
	text := &refusalText{Detail: detail}
	if status >= http.StatusInternalServerError {
		text.Reference = strings.ReplaceAll(p.refusal.frame.catalogues[v.lang]["common"]["reference"], "{id}", requestID)
	}
	body, err := p.refusal.frame.render(refusalPage, p.refusal.entry, v, text)
	if err != nil {
		return false
	}
	h := w.Header()
	h.Set("Content-Security-Policy", contentSecurity(p.refusal.frame.cfg))
	h.Set("Content-Type", htmlType)
	setSecurityHeaders(h)
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
	return true
}
