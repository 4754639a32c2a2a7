package web_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Some browser APIs, such as crypto.randomUUID, exist only in secure contexts. A page that needs
// them fails on plain http.
func TestPagesWorkOnPlainHTTP(t *testing.T) {
	t.Parallel()
	files := 0
	require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", "web", "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(filepath.Ext(path), ".ts") {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		for _, secure := range []string{"crypto.randomUUID(", "crypto.subtle.", "navigator.clipboard.", "navigator.serviceWorker."} {
			require.NotContains(t, string(raw), secure, path)
		}
		return err
	}))
	require.Positive(t, files)
}
