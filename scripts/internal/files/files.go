// Package files writes files into a checkout.
package files

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Put writes a file and creates its parent folders. If the file has this content already, Put
// leaves it unchanged, so that caches which compare modification times stay valid.
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
