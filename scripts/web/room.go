package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

// waitingRoom is the one-file page; Script and Style are the CSP sources of its inline script and
// style.
type waitingRoom struct {
	File   string `json:"file"`
	Script string `json:"script"`
	Style  string `json:"style"`
	page   []byte
}

// proofSource is the worker that does proofs of work, of the waiting room alone.
const proofSource = "src/room/proof.worker.ts"

// buildRoom inlines script and style into the page's file. The workers become strings in the script,
// since the page must load no other file.
func buildRoom(web, clock string) (*waitingRoom, error) {
	if clock == "" {
		return nil, errors.New("bundle: the clock's worker is empty")
	}
	options := pageOptions(web)
	options.Splitting, options.Format, options.Sourcemap = false, api.FormatIIFE, api.SourceMapNone
	options.EntryPoints = []string{proofSource}
	prover, err := single(options)
	if err != nil {
		return nil, err
	}
	options.Define = map[string]string{}
	for name, source := range map[string]string{"CLOCK_SOURCE": clock, "PROOF_SOURCE": string(prover)} {
		quoted, err := json.Marshal(source)
		if err != nil {
			return nil, fmt.Errorf("quote a worker: %w", err)
		}
		options.Define[name] = string(quoted)
	}
	options.EntryPoints = []string{"src/room/room.ts"}
	script, err := single(options)
	if err != nil {
		return nil, err
	}
	options.EntryPoints = []string{"src/room/room.css"}
	style, err := single(options)
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(web, "src/room/room.html"))
	if err != nil {
		return nil, fmt.Errorf("read the waiting room: %w", err)
	}
	icon, err := os.ReadFile(filepath.Join(web, "../internal/web/icon.svg"))
	if err != nil {
		return nil, fmt.Errorf("read the icon: %w", err)
	}
	// The same address as on the other pages, which the gateway renders.
	address := []byte(html.EscapeString("data:image/svg+xml," + url.PathEscape(string(icon))))
	for mark, text := range map[string][]byte{"/*STYLE*/": style, "/*SCRIPT*/": script, "/*ICON*/": address} {
		if bytes.Count(page, []byte(mark)) != 1 {
			return nil, fmt.Errorf("the waiting room must hold %s exactly once", mark)
		}
		page = bytes.Replace(page, []byte(mark), text, 1)
	}
	return &waitingRoom{File: "vwr.html", Script: hash(script), Style: hash(style), page: page}, nil
}

// single builds an entry point that must produce exactly one file.
func single(options api.BuildOptions) ([]byte, error) {
	result := api.Build(options)
	if err := problems(result); err != nil {
		return nil, err
	}
	if len(result.OutputFiles) != 1 {
		return nil, fmt.Errorf("bundle: %s became %d files instead of one", options.EntryPoints[0], len(result.OutputFiles))
	}
	return bytes.TrimSpace(result.OutputFiles[0].Contents), nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
