// Package section replaces the generated sections of documents. A section stands between the lines
// `<!-- NAME: make NAME -->` and `<!-- NAME end -->`.
package section

import (
	"fmt"
	"os"
	"strings"
)

// Write puts text into the section of the document at path.
func Write(path, name, text string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write the %s: %w", name, err)
	}
	document, err := Replace(string(raw), name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if document == string(raw) {
		return nil
	}
	if err := os.WriteFile(path, []byte(document), 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write the %s: %w", name, err)
	}
	return nil
}

// Replace returns the document with text in its section.
func Replace(document, name, text string) (string, error) {
	begin, end := fmt.Sprintf("<!-- %s: make %s -->\n", name, name), fmt.Sprintf("<!-- %s end -->\n", name)
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("has no place for the %s: two lines that name make %s and their end", name, name)
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}
