// Package files writes files of a checkout.
package files

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Put writes a file and creates the folders above it. A file that has this content already is not
// touched, so that caches which compare times stay valid.
func Put(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, content, 0o644) //nolint:gosec // no secrets
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
