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
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// output has the built files by their paths in the folder dist, which the gateway embeds, and the
// source maps, which it does not embed.
type output struct {
	files  map[string][]byte
	maps   map[string][]byte
	packed int // sum of the sizes of the files when compressed by brotli, in bytes
}

// manifest contains the files that each page needs. The gateway reads it
// (services/gateway/internal/web).
type manifest struct {
	Pages       map[string]manifestEntry `json:"pages"`
	Clock       string                   `json:"clock"`
	WaitingRoom waitingRoom              `json:"waitingRoom"`
	Docs        manifestEntry            `json:"docs"`
	Pay         manifestEntry            `json:"pay"`
}

type manifestEntry struct {
	Module  string   `json:"module"`
	Preload []string `json:"preload"`
	Styles  []string `json:"styles"`
}

// metafile describes the output of a build. It has the fields of esbuild's metafile that are used.
type metafile struct {
	Outputs map[string]struct {
		EntryPoint string `json:"entryPoint"`
		CSSBundle  string `json:"cssBundle"`
		Imports    []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"imports"`
	} `json:"outputs"`
}

const (
	clockSource = "src/lib/clock.worker.ts"
	docsSource  = "src/docs/docs.ts"
	paySource   = "src/pay/toss.ts"
)

// bundle builds all pages, the clock's worker and the waiting room. Equal sources give equal files.
func bundle(web string) (*output, error) {
	out := &output{files: map[string][]byte{}, maps: map[string][]byte{}}
	pages, err := filepath.Glob(filepath.Join(web, "src/pages/*.tsx"))
	if err != nil || len(pages) == 0 {
		return nil, fmt.Errorf("no pages under %s/src/pages", web)
	}
	options := pageOptions(web)
	options.EntryPoints = []string{"src/style.css"}
	for _, p := range pages {
		options.EntryPoints = append(options.EntryPoints, "src/pages/"+filepath.Base(p))
	}
	meta, err := out.addBuild(options)
	if err != nil {
		return nil, err
	}
	m, style := manifest{Pages: map[string]manifestEntry{}}, meta.outputOf("src/style.css")
	if m.Clock, err = out.addScript(web, clockSource); err != nil {
		return nil, err
	}
	m.Pay.Styles = []string{style}
	if m.Pay.Module, err = out.addScript(web, paySource); err != nil {
		return nil, err
	}
	for name, o := range meta.Outputs {
		if dir, file := path.Split(o.EntryPoint); dir == "src/pages/" {
			e := manifestEntry{Module: publicPath(name), Preload: meta.preload(name), Styles: []string{style}}
			if o.CSSBundle != "" {
				e.Styles = append(e.Styles, publicPath(o.CSSBundle))
			}
			m.Pages[strings.TrimSuffix(file, ".tsx")] = e
		}
	}
	if m.Docs, err = out.addDocs(web); err != nil {
		return nil, err
	}
	room, err := buildRoom(web, string(out.files[strings.TrimPrefix(m.Clock, "/")]))
	if err != nil {
		return nil, err
	}
	out.files[room.File] = room.page
	m.WaitingRoom = *room
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	out.files["manifest.json"] = raw
	return out, nil
}

// pageOptions returns esbuild's options for pages: for modern browsers, with URLs under the
// gateway's path /assets/, and with hashes of the contents in the names of files.
func pageOptions(web string) api.BuildOptions {
	return api.BuildOptions{
		AbsWorkingDir: web, Outdir: "assets", Outbase: "src", PublicPath: "/assets/",
		Bundle: true, Splitting: true, Format: api.FormatESModule, Platform: api.PlatformBrowser, Target: api.ES2022,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		EntryNames: "[name]-[hash]", AssetNames: "[name]-[hash]", ChunkNames: "chunk-[hash]",
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Sourcemap: api.SourceMapExternal, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsNone,
		Metafile: true, Write: false,
	}
}

// addScript builds a script that shares no code with others, and returns its URL path.
func (o *output) addScript(web, source string) (string, error) {
	options := pageOptions(web)
	options.EntryPoints, options.Splitting, options.Format = []string{source}, false, api.FormatIIFE
	meta, err := o.addBuild(options)
	if err != nil {
		return "", err
	}
	return meta.outputOf(source), nil
}

// addDocs builds one script and one style sheet for the page of the API reference. They contain the
// licences of the packages in them.
func (o *output) addDocs(web string) (manifestEntry, error) {
	options := pageOptions(web)
	options.EntryPoints, options.Splitting, options.Format = []string{docsSource}, false, api.FormatIIFE
	options.LegalComments = api.LegalCommentsEndOfFile
	meta, err := o.addBuild(options)
	if err != nil {
		return manifestEntry{}, err
	}
	for name, out := range meta.Outputs {
		if out.EntryPoint == docsSource {
			return manifestEntry{Module: publicPath(name), Styles: []string{publicPath(out.CSSBundle)}}, nil
		}
	}
	return manifestEntry{}, fmt.Errorf("no output of %s", docsSource)
}

func (o *output) addBuild(options api.BuildOptions) (*metafile, error) {
	result := api.Build(options)
	if err := problems(result); err != nil {
		return nil, err
	}
	for _, f := range result.OutputFiles {
		name := filepath.Base(f.Path)
		if strings.HasSuffix(name, ".map") {
			o.maps[name] = f.Contents
		} else {
			o.files["assets/"+name] = f.Contents
		}
	}
	var meta metafile
	if err := json.Unmarshal([]byte(result.Metafile), &meta); err != nil {
		return nil, fmt.Errorf("read esbuild's metafile: %w", err)
	}
	return &meta, nil
}

// problems joins esbuild's errors and warnings into one error, so that a warning fails the build.
func problems(result api.BuildResult) error {
	messages := slices.Concat(result.Errors, result.Warnings)
	if len(messages) == 0 {
		return nil
	}
	texts := api.FormatMessages(messages, api.FormatMessagesOptions{Kind: api.ErrorMessage})
	return fmt.Errorf("bundle:\n%s", strings.Join(texts, ""))
}

// outputOf returns the URL path of the file built from a source file, or "" if there is none.
func (m *metafile) outputOf(source string) string {
	for name, o := range m.Outputs {
		if o.EntryPoint == source {
			return publicPath(name)
		}
	}
	return ""
}

// preload returns every chunk that a file imports, directly or indirectly, so that the browser can
// fetch them concurrently.
func (m *metafile) preload(name string) []string {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(n string) {
		for _, i := range m.Outputs[n].Imports {
			if i.Kind == "import-statement" && !seen[i.Path] {
				seen[i.Path] = true
				walk(i.Path)
			}
		}
	}
	walk(name)
	paths := make([]string, 0, len(seen))
	for p := range seen {
		paths = append(paths, publicPath(p))
	}
	slices.Sort(paths)
	return paths
}

func publicPath(name string) string { return "/assets/" + path.Base(name) }

// waitingRoom describes the waiting room's page, which is a single file. Script and Style are
// hashes of its inline script and style, by which its Content-Security-Policy allows them.
type waitingRoom struct {
	File   string `json:"file"`
	Script string `json:"script"`
	Style  string `json:"style"`
	page   []byte
}

// proofSource is the web worker that does proofs of work. Only the waiting room has it.
const proofSource = "src/room/proof.worker.ts"

// buildRoom puts the script and the style into the page's file. The script contains the web workers
// as strings, since the page must load no other file.
func buildRoom(web, clock string) (*waitingRoom, error) {
	if clock == "" {
		return nil, errors.New("bundle: the clock's worker is empty")
	}
	options := pageOptions(web)
	options.Splitting, options.Format, options.Sourcemap = false, api.FormatIIFE, api.SourceMapNone
	options.EntryPoints = []string{proofSource}
	prover, err := bundleFile(options)
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
	script, err := bundleFile(options)
	if err != nil {
		return nil, err
	}
	options.EntryPoints = []string{"src/room/room.css"}
	style, err := bundleFile(options)
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
	// The icon has the same data URL as on the pages that the gateway renders.
	address := []byte(html.EscapeString("data:image/svg+xml," + url.PathEscape(string(icon))))
	for mark, text := range map[string][]byte{"/*STYLE*/": style, "/*SCRIPT*/": script, "/*ICON*/": address} {
		if bytes.Count(page, []byte(mark)) != 1 {
			return nil, fmt.Errorf("the waiting room must hold %s exactly once", mark)
		}
		page = bytes.Replace(page, []byte(mark), text, 1)
	}
	return &waitingRoom{File: "vwr.html", Script: cspHash(script), Style: cspHash(style), page: page}, nil
}

// bundleFile builds an entry point, from which exactly one file must result.
func bundleFile(options api.BuildOptions) ([]byte, error) {
	result := api.Build(options)
	if err := problems(result); err != nil {
		return nil, err
	}
	if len(result.OutputFiles) != 1 {
		return nil, fmt.Errorf("bundle: %s became %d files instead of one", options.EntryPoints[0], len(result.OutputFiles))
	}
	return bytes.TrimSpace(result.OutputFiles[0].Contents), nil
}

func cspHash(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
