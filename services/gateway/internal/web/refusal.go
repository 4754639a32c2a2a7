package web

import (
	"net/http"
	"strings"
)

// refusalPage is the module and the group of sentences of the page that says why there is no other.
const refusalPage = "problem"

// refusal is that page. Its words come with each request, so it is rendered then: nobody polls it.
type refusal struct {
	frame *frame
	entry entry
}

// refusalText is what a refusal says; without a title it has that of its page.
type refusalText struct{ Title, Detail, Help, Reference string }

// newNoEvent makes the page of an event that does not exist. Crowds ask for such a page, when an
// announced address is wrong or too early, so it is rendered once and not for each of them.
func newNoEvent(f *frame, e entry) (*shell, error) {
	return renderAll(f, refusalPage, e, http.StatusNotFound, func(c catalogue) *refusalText {
		said := c[refusalPage]
		return &refusalText{Title: said["noEventTitle"], Detail: said["noEvent"], Help: said["noEventHelp"]}
	})
}

// NoEvent shows a person that there is no such event, and the way to all events. It returns false,
// and has written nothing, to programs, and before the pages are built.
func (p *Pages) NoEvent(w http.ResponseWriter, r *http.Request) bool {
	if p.noEvent == nil || !navigates(r) {
		return false
	}
	p.noEvent.ServeHTTP(w, r)
	return true
}

// navigates reports whether a person is about to look at the answer: a browser that opens a page, not a program or a
// script that asks the API.
func navigates(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	for _, api := range []string{"/api/", "/vwr-api/", "/assets/"} {
		if strings.HasPrefix(r.URL.Path, api) {
			return false
		}
	}
	return true
}

// Refuse shows why a page was refused: a sentence for the person, and the number under which operators find it when the
// fault is ours. It returns false, and has written nothing, to programs, and before the pages are built.
func (p *Pages) Refuse(w http.ResponseWriter, r *http.Request, status int, detail, requestID string) bool {
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
	secure(h)
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
	return true
}
