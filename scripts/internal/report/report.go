// Package report renders and keeps the report of a run.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
)

// Render executes the template of a page.
func Render(source string, data any) ([]byte, error) {
	t, err := template.New("report").Parse(source)
	if err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	return b.Bytes(), nil
}

// Write keeps the figures of a run as report.json and their page as report.html, and prints where.
func Write(dir string, figures any, page []byte) error {
	if err := Keep(dir, figures, page); err != nil {
		return err
	}
	fmt.Printf("\nreport: %s and report.json\n", filepath.Join(dir, "report.html"))
	return nil
}

// Keep is Write without a word. A run that calls it again and again leaves the last files whole,
// whenever it ends.
func Keep(dir string, figures any, page []byte) error {
	raw, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	for name, content := range map[string][]byte{"report.json": raw, "report.html": page} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path+".new", content, 0o644), os.Rename(path+".new", path)); err != nil {
			return fmt.Errorf("keep the report: %w", err)
		}
	}
	return nil
}
