package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pageNames are the pages made by the shell template. Each name is also that of a module in the
// bundle and of a group in the catalogues.
var pageNames = []string{"events", "event", "queue", "seats", "book", "checkout", "transfers", "memberships", "my", "order", "check-in", "orders", "login", "campaign", "promo", "draw"}

// bundleManifest describes the output of the bundler. Paths are URL paths.
type bundleManifest struct {
	Pages map[string]bundleEntry `json:"pages"`
	Clock string                 `json:"clock"`
	// WaitingRoom is the single-file page with the hashes of its inline script and style, as CSP
	// sources ("sha256-…").
	WaitingRoom struct {
		File   string `json:"file"`
		Script string `json:"script"`
		Style  string `json:"style"`
	} `json:"waitingRoom"`
	Docs bundleEntry `json:"docs"`
	Pay  bundleEntry `json:"pay"`
}

type bundleEntry struct {
	Module  string   `json:"module"`
	Preload []string `json:"preload"`
	Styles  []string `json:"styles"`
}

func newPages(files fs.FS, cfg Config) (*Pages, error) {
	catalogues, err := loadCatalogues()
	if err != nil {
		return nil, err
	}
	raw, err := fs.ReadFile(files, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) {
		return newUnbuiltPages(catalogues, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the pages: %w", err)
	}
	var m bundleManifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("parse the manifest of the pages: %w", err)
	}
	assets, err := newAssets(files)
	if err != nil {
		return nil, err
	}
	room, err := newWaitingRoomPage(files, m, cfg)
	if err != nil {
		return nil, err
	}
	tmpl, err := parseTemplate("shell.html")
	if err != nil {
		return nil, err
	}
	f := &pageFrame{template: tmpl, catalogues: catalogues, clock: m.Clock, cfg: cfg}
	p := &Pages{
		shells: make(map[string]*pageShell, len(pageNames)), WaitingRoom: room, Assets: assets, Robots: newRobots(),
		DocsScript: m.Docs.Module, DocsStyles: m.Docs.Styles,
	}
	for _, name := range append([]string{refusalPage}, pageNames...) {
		e, ok := m.Pages[name]
		if !ok {
			return nil, fmt.Errorf("the bundle has no page %q: build the pages again", name)
		}
		if p.shells[name], err = newPageShell(f, name, e); err != nil {
			return nil, err
		}
	}
	if p.refusal, err = newErrorPage(f, m.Pages[refusalPage]); err != nil {
		return nil, err
	}
	if p.noEvent, err = newNoEventPage(f, m.Pages[refusalPage]); err != nil {
		return nil, err
	}
	if cfg.Pay.ClientKey != "" {
		if p.Pay, err = newPayHost(catalogues, m, assets, cfg); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// newUnbuiltPages makes pages that explain how to build the pages, so that the gateway starts without
// Node.
func newUnbuiltPages(catalogues map[string]catalogue, cfg Config) (*Pages, error) {
	tmpl, err := parseTemplate("unbuilt.html")
	if err != nil {
		return nil, err
	}
	s := &pageShell{status: http.StatusServiceUnavailable, csp: contentSecurity(cfg), bodies: map[string]*encodedContent{}}
	for lang, c := range catalogues {
		body, err := executeTemplate(tmpl, map[string]any{"Lang": lang, "Icon": iconDataURL(), "S": c})
		if err != nil {
			return nil, err
		}
		s.bodies[lang] = newContent(htmlType, body)
	}
	p := &Pages{shells: make(map[string]*pageShell, len(pageNames)), WaitingRoom: s, Assets: http.NotFoundHandler(), Robots: newRobots(), Pay: s}
	for _, name := range pageNames {
		p.shells[name] = s
	}
	return p, nil
}

func parseTemplate(name string) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(templateFiles, "templates/"+name)
	if err != nil {
		return nil, fmt.Errorf("parse template %s: %w", name, err)
	}
	return t, nil
}

func executeTemplate(t *template.Template, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", t.Name(), err)
	}
	return b.Bytes(), nil
}
