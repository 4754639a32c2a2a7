// Package language finds the language of a request.
package language

import (
	"net/http"
	"slices"
	"strings"

	"github.com/maypok86/otter/v2"
	"golang.org/x/text/language"
)

// Cookie is the cookie with the language that the visitor has chosen, "en" or "ko". It takes
// precedence over Accept-Language. Scripts of the pages set it.
const Cookie = "urr-lang"

// All are the languages of the pages and of e-mails; the first is the default.
var (
	All     = []string{"en", "ko"}
	matcher = language.NewMatcher([]language.Tag{language.English, language.Korean})
)

// CDNHeader is the header in which a CDN sends the language that it has derived from the cookie and
// Accept-Language as Of does: one of All. It is part of the CDN's cache key.
const CDNHeader = "X-Urr-Language"

// FromCDN returns the language that a CDN has sent, "" if it has sent none.
func FromCDN(h http.Header) string {
	if l := h.Get(CDNHeader); slices.Contains(All, l) {
		return l
	}
	return ""
}

// Of returns the language of a request with this header: one of All.
func Of(h http.Header) string {
	if l := FromCDN(h); l != "" {
		return l
	}
	if strings.Contains(h.Get("Cookie"), Cookie) { // seldom: to parse all cookies costs more
		if c, err := (&http.Request{Header: h}).Cookie(Cookie); err == nil && slices.Contains(All, c.Value) {
			return c.Value
		}
	}
	header := h.Get("Accept-Language")
	if len(header) > maxAcceptLanguage {
		return All[0]
	}
	l, _ := accepted.ComputeIfAbsent(header, func() (string, bool) {
		// An invalid header yields no tags, which match the first language.
		tags, _, _ := language.ParseAcceptLanguage(header)
		_, i, _ := matcher.Match(tags...)
		return All[i], false
	})
	return l
}

// maxAcceptLanguage is the longest header that is read, in bytes. Browsers send less than half.
const maxAcceptLanguage = 256

// accepted caches the language of recent values of Accept-Language. Browsers send few different
// values, and parsing one takes as long as the rest of an error's response.
var accepted = otter.Must(&otter.Options[string, string]{MaximumSize: 1000}) //nolint:gochecknoglobals // a cache of a pure function
