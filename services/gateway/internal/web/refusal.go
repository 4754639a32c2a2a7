package web

import (
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"

	"urr.guru/services/gateway/internal/language"
)

const refusalPage = "problem"

// errorPage is the page that shows an error. It is rendered in advance in every language, so that a
// flood of failing requests costs little. A response inserts a sentence for its error and, for
// server errors, the request id.
type errorPage struct {
	csp               string
	plain, referenced map[string][]string // the page in parts, between which texts are inserted
}

// insertion is in a rendered page where a response inserts its texts.
const insertion = "@@insertion@@"

func newErrorPage(f *pageFrame, e bundleEntry) (*errorPage, error) {
	p := &errorPage{csp: contentSecurity(f.cfg), plain: map[string][]string{}, referenced: map[string][]string{}}
	for lang, c := range f.catalogues {
		reference := strings.ReplaceAll(c["common"]["reference"], "{id}", insertion)
		plain, err := f.render(refusalPage, e, lang, &refusalText{Detail: insertion})
		if err != nil {
			return nil, err
		}
		referenced, err := f.render(refusalPage, e, lang, &refusalText{Detail: insertion, Reference: reference})
		if err != nil {
			return nil, err
		}
		p.plain[lang], p.referenced[lang] = strings.Split(string(plain), insertion), strings.Split(string(referenced), insertion)
	}
	return p, nil
}

// refusalText is the text of an error page. If Title is empty, the page's own title is used.
type refusalText struct{ Title, Detail, Help, Reference string }

// newNoEventPage makes the page for an event that does not exist. It is rendered in advance, since
// a crowd requests it when an address was announced too early or with an error.
func newNoEventPage(f *pageFrame, e bundleEntry) (*pageShell, error) {
	return renderAll(f, refusalPage, e, http.StatusNotFound, func(c catalogue) *refusalText {
		texts := c[refusalPage]
		return &refusalText{Title: texts["noEventTitle"], Detail: texts["noEvent"], Help: texts["noEventHelp"]}
	})
}

// ServeNoEvent shows a person that the event does not exist, with a link to all events. For
// programs, and before the pages are built, it writes nothing and returns false.
func (p *Pages) ServeNoEvent(w http.ResponseWriter, r *http.Request) bool {
	if p.noEvent == nil || !isNavigation(r) {
		return false
	}
	p.noEvent.ServeHTTP(w, r)
	return true
}

// returnPath is the prefix of the addresses to which a provider's page sends buyers back. No other
// addresses of the API are opened by people.
const returnPath = "/api/v1/payments/return/"

// isNavigation reports whether a person opened the address in a browser, not a program or a script.
func isNavigation(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	if strings.HasPrefix(r.URL.Path, returnPath) {
		return true
	}
	return !slices.ContainsFunc([]string{"/api/", "/vwr-api/", "/assets/"}, func(api string) bool { return strings.HasPrefix(r.URL.Path, api) })
}

// ServeRefusal shows why a page was refused: a sentence for the user, and for server errors the
// request id for operators. For programs, and before the pages are built, it writes nothing and
// returns false.
func (p *Pages) ServeRefusal(w http.ResponseWriter, r *http.Request, status int, detail, requestID string) bool {
	if p.refusal == nil || !isNavigation(r) {
		return false
	}
	parts, inserted := p.refusal.plain[language.Of(r.Header)], []string{detail}
	if status >= http.StatusInternalServerError {
		parts, inserted = p.refusal.referenced[language.Of(r.Header)], []string{detail, requestID}
	}
	h := w.Header()
	h.Set("Content-Security-Policy", p.refusal.csp)
	h.Set("Content-Type", htmlType)
	setSecurityHeaders(h)
	w.WriteHeader(status)
	if r.Method != http.MethodGet {
		return true
	}
	for i, part := range parts {
		_, _ = io.WriteString(w, part)
		if i < len(inserted) {
			template.HTMLEscape(w, []byte(inserted[i]))
		}
	}
	return true
}
