package web

import (
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// build bundles the real pages.
func build(t *testing.T) (*output, manifest) {
	t.Helper()
	layout, err := platform.Find()
	require.NoError(t, err)
	web := filepath.Join(layout.Root, "services/gateway/web")
	require.NoError(t, install(t.Context(), web))
	out, err := bundle(web)
	require.NoError(t, err)
	var m manifest
	require.NoError(t, json.Unmarshal(out.files["manifest.json"], &m))
	return out, m
}

func TestBundleIsDeterministic(t *testing.T) {
	t.Parallel()
	first, _ := build(t)
	again, _ := build(t)
	require.Equal(t, first.files, again.files)
}

func TestManifestNamesExistingFiles(t *testing.T) {
	t.Parallel()
	out, m := build(t)
	require.Contains(t, m.Pages, "seats")
	for _, path := range slices.Concat([]string{m.Docs.Module, m.Pay.Module}, m.Docs.Styles, m.Pay.Styles) {
		require.Contains(t, out.files, strings.TrimPrefix(path, "/"))
	}
	for name, page := range m.Pages {
		for _, path := range append([]string{page.Module, m.Clock}, append(page.Preload, page.Styles...)...) {
			require.Contains(t, out.files, strings.TrimPrefix(path, "/"), name)
			require.True(t, strings.HasPrefix(path, "/assets/"), path)
		}
		require.NotEmpty(t, page.Preload, "%s shares code with the others", name)
		require.NotEmpty(t, page.Styles, name)
	}
	for name, body := range out.files {
		require.NotContains(t, name, ".map")
		require.NotContains(t, string(body), "sourceMappingURL", name)
		if path.Base(name) == path.Base(m.Docs.Module) {
			continue // Swagger UI contains URLs that it does not load in this setup; the page's CSP allows none
		}
		require.NotRegexp(t, `https?://[a-z0-9.-]+\.[a-z]{2,}/`, withoutNamespaces(string(body)), "%s names another site", name)
	}
}

// withoutNamespaces removes the names of XML namespaces: they look like URLs, but are never
// fetched.
func withoutNamespaces(text string) string {
	return regexp.MustCompile(`https?://www\.w3\.org/[\w./]+`).ReplaceAllString(text, "")
}

func TestWaitingRoomIsOneFileWithItsHashes(t *testing.T) {
	t.Parallel()
	out, m := build(t)
	page := string(out.files[m.WaitingRoom.File])
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(page, -1)
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(page, -1)
	require.Len(t, script, 1)
	require.Len(t, style, 1)
	require.Equal(t, m.WaitingRoom.Script, cspHash([]byte(script[0][1])))
	require.Equal(t, m.WaitingRoom.Style, cspHash([]byte(style[0][1])))
	require.NotRegexp(t, `\ssrc=|<link [^>]*href="[^d]`, page, "nothing is loaded")
	require.Contains(t, page, "대기실", "Korean stays readable")
}

func TestWriteReplacesTheLastBuild(t *testing.T) {
	t.Parallel()
	dist, maps := t.TempDir(), t.TempDir()
	put := func(name string) string {
		path := filepath.Join(dist, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		return path
	}
	keep, stale := put(".keep"), put("assets/old-A.js")
	out := &output{
		files: map[string][]byte{"manifest.json": []byte("{}"), "assets/new-B.js": []byte(strings.Repeat("let a;", 100))},
		maps:  map[string][]byte{"new-B.js.map": []byte("{}")},
	}
	require.NoError(t, out.write(dist, maps))
	require.FileExists(t, keep)
	require.NoFileExists(t, stale)
	require.NoFileExists(t, filepath.Join(dist, "manifest.json.br"), "only the gateway reads it")
	require.FileExists(t, filepath.Join(maps, "new-B.js.map"))
	for _, suffix := range []string{".br", ".gz"} {
		packed, err := os.ReadFile(filepath.Join(dist, "assets/new-B.js"+suffix))
		require.NoError(t, err)
		require.Less(t, len(packed), 100)
	}
	before, err := os.Stat(filepath.Join(dist, "assets/new-B.js"))
	require.NoError(t, err)
	require.NoError(t, out.write(dist, maps))
	after, err := os.Stat(filepath.Join(dist, "assets/new-B.js"))
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime(), "an unchanged file is not written")
}

// A file is compressed again if its content has changed, or if an earlier build was interrupted.
func TestCompressedFilesMatchTheirFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "a.js")
	unpacked := func() string {
		f, err := os.Open(name + brotliSuffix)
		require.NoError(t, err)
		defer func() { _ = f.Close() }()
		body, err := io.ReadAll(brotli.NewReader(f))
		require.NoError(t, err)
		return string(body)
	}
	for _, body := range []string{"first", "second"} {
		size, err := putPacked(name, []byte(body))
		require.NoError(t, err)
		require.Equal(t, body, unpacked())
		again, err := putPacked(name, []byte(body))
		require.NoError(t, err)
		require.Equal(t, size, again)
	}
	for _, missing := range []string{"", brotliSuffix, gzipSuffix} {
		require.NoError(t, os.WriteFile(name+brotliSuffix, []byte("half"), 0o644))
		require.NoError(t, os.Remove(name+missing))
		_, err := putPacked(name, []byte("second"))
		require.NoError(t, err)
		require.Equal(t, "second", unpacked(), "%q was missing", missing)
	}
}
