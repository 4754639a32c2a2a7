package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func blob(t *testing.T, dir, digest string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:")))
	require.NoError(t, err)
	require.Equal(t, digest, digestOf(raw), "a blob is named by its content")
	return raw
}

func TestBase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest, err := writeBase(dir)
	require.NoError(t, err)
	again, err := writeBase(filepath.Join(t.TempDir(), "img"))
	require.NoError(t, err)
	require.Equal(t, digest, again, "equal content must have an equal digest")

	var index, manifest struct {
		Manifests []descriptor `json:"manifests"`
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "index.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &index))
	require.Equal(t, digest, index.Manifests[0].Digest)
	require.NoError(t, json.Unmarshal(blob(t, dir, digest), &manifest))

	var config struct {
		Config struct{ User string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	require.NoError(t, json.Unmarshal(blob(t, dir, manifest.Config.Digest), &config))
	require.Equal(t, nonRoot, config.Config.User)

	zipped, err := gzip.NewReader(bytes.NewReader(blob(t, dir, manifest.Layers[0].Digest)))
	require.NoError(t, err)
	layer, err := io.ReadAll(zipped)
	require.NoError(t, err)
	require.Equal(t, []string{digestOf(layer)}, config.RootFS.DiffIDs)
	files := unpack(t, layer)
	require.Greater(t, len(files["etc/ssl/certs/ca-certificates.crt"].data), 100_000)
	require.Contains(t, files, "etc/passwd")
	require.Contains(t, files, "etc/ssl/certs/", "folders are there before what is in them")
}

func TestImageOfAProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, archive := filepath.Join(dir, "pause"), filepath.Join(dir, "pause.tar")
	require.NoError(t, os.WriteFile(program, []byte("#!"), 0o600))
	require.NoError(t, WriteProgram(archive, "urr.local/pause:cluster", program))
	packed, err := os.ReadFile(archive)
	require.NoError(t, err)
	files := unpack(t, packed)

	var index struct{ Manifests []descriptor }
	require.NoError(t, json.Unmarshal(files["index.json"].data, &index))
	require.Equal(t, "urr.local/pause:cluster", index.Manifests[0].Annotations["io.containerd.image.name"])
	var docker []struct {
		Config           string
		RepoTags, Layers []string
	}
	require.NoError(t, json.Unmarshal(files["manifest.json"].data, &docker))
	require.Equal(t, []string{"urr.local/pause:cluster"}, docker[0].RepoTags)
	require.Contains(t, string(files[docker[0].Config].data), `"Entrypoint":["/pause"]`)
	zipped, err := gzip.NewReader(bytes.NewReader(files[docker[0].Layers[0]].data))
	require.NoError(t, err)
	layer, err := io.ReadAll(zipped)
	require.NoError(t, err)
	require.Equal(t, map[string]imageFile{"pause": {[]byte("#!"), 0o755}, "tmp/": {[]byte{}, 0o1777}}, unpack(t, layer))
}

func unpack(t *testing.T, packed []byte) map[string]imageFile {
	t.Helper()
	files := map[string]imageFile{}
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		files[h.Name] = imageFile{data, h.Mode}
	}
}
