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
	files := map[string]int64{}
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files[h.Name] = h.Size
	}
	require.Greater(t, files["etc/ssl/certs/ca-certificates.crt"], int64(100_000))
	require.Contains(t, files, "etc/passwd")
	require.Contains(t, files, "etc/ssl/certs/", "folders are there before what is in them")
}
