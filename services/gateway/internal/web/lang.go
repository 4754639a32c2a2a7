package web

import (
	"embed"
	"encoding/json"
	"fmt"

	"urr.guru/services/gateway/internal/language"
)

//go:embed lang/*.json
var languageFiles embed.FS

// catalogue has every sentence of one language, by page and key.
type catalogue map[string]map[string]string

func loadCatalogues() (map[string]catalogue, error) {
	all := make(map[string]catalogue, len(language.All))
	for _, l := range language.All {
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
