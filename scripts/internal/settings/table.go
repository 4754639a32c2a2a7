package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The table stands between these lines of a README.
const (
	begin = "<!-- settings: make settings -->\n"
	end   = "<!-- settings end -->\n"
)

// Table is a table of settings in Markdown.
func Table(all []Setting) string {
	var b strings.Builder
	b.WriteString("| variable | takes | default | |\n| --- | --- | --- | --- |\n")
	for _, s := range all {
		value := s.Default
		switch {
		case s.Required:
			value = "required"
		case value != "":
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, s.Takes, value, s.Meaning)
	}
	return b.String()
}

// Write puts the table into the README at path.
func Write(path string, all []Setting) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	text, err := replaced(string(raw), Table(all))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if text == string(raw) {
		return nil
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

func replaced(text, table string) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", errors.New("has no place for the settings: two lines that name make settings and their end")
	}
	return before + begin + "\n" + table + "\n" + end + after, nil
}
