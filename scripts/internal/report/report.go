// Package report renders and keeps the report of a run.
package report

import (
	"bytes"
	"encoding/json"
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
	raw, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	html := filepath.Join(dir, "report.html")
	if err := os.WriteFile(filepath.Join(dir, "report.json"), raw, 0o644); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	if err := os.WriteFile(html, page, 0o644); err != nil {
		return fmt.Errorf("keep the report: %w", err)
	}
	fmt.Printf("\nreport: %s and report.json\n", html)
	return nil
}
