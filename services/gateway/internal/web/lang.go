package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/text/language"
)

//go:embed lang/*.json
var languageFiles embed.FS

// LanguageCookie holds the language chosen by the visitor, "en" or "ko"; it takes precedence over
// Accept-Language. Pages set it.
const LanguageCookie = "urr-lang"

// languages are those of the pages; the first is the default.
var (
	languages = []string{"en", "ko"}
	matcher   = language.NewMatcher([]language.Tag{language.English, language.Korean})
)

// catalogue has every sentence of one language, by page and key.
type catalogue map[string]map[string]string

// Language returns the language for the response to r: "en" or "ko".
func Language(r *http.Request) string {
	if c, err := r.Cookie(LanguageCookie); err == nil {
		if slices.Contains(languages, c.Value) {
			return c.Value
		}
	}
	// An invalid header yields no tags, which match the first language.
	tags, _, _ := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	_, i, _ := matcher.Match(tags...)
	return languages[i]
}

func loadCatalogues() (map[string]catalogue, error) {
	all := make(map[string]catalogue, len(languages))
	for _, l := range languages {
		raw, err := languageFiles.ReadFile("lang/" + l + ".json")
		if err != nil {
			return nil, fmt.Errorf("read catalogue: %w", err)
		}
		var c catalogue
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, fmt.Errorf("parse catalogue %s: %w", l, err)
		}
		all[l] = c
	}
	return all, nil
}

func (c catalogue) textGroups(names ...string) (map[string]map[string]string, error) {
	part := make(map[string]map[string]string, len(names))
	for _, n := range names {
		g, ok := c[n]
		if !ok {
			return nil, fmt.Errorf("the catalogue has no group %q", n)
		}
		part[n] = g
	}
	return part, nil
}
