// Package language finds the language of a request.
package language

import (
	"net/http"
	"slices"

	"golang.org/x/text/language"
)

// Cookie holds the language chosen by the visitor, "en" or "ko"; it takes precedence over
// Accept-Language. Pages set it.
const Cookie = "urr-lang"

// All are the languages of the pages and of e-mails; the first is the default.
var (
	All     = []string{"en", "ko"}
	matcher = language.NewMatcher([]language.Tag{language.English, language.Korean})
)

// Of returns the language of a request with this header: one of All.
func Of(h http.Header) string {
	if c, err := (&http.Request{Header: h}).Cookie(Cookie); err == nil {
		if slices.Contains(All, c.Value) {
			return c.Value
		}
	}
	// An invalid header yields no tags, which match the first language.
	tags, _, _ := language.ParseAcceptLanguage(h.Get("Accept-Language"))
	_, i, _ := matcher.Match(tags...)
	return All[i]
}
