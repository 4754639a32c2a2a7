package settings

import (
	"fmt"
	"strings"

	"urr.guru/scripts/internal/section"
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
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, s.Takes, value, strings.ReplaceAll(s.Meaning, "|", `\|`))
	}
	return b.String()
}

// Write puts the table into the README at path.
func Write(path string, all []Setting) error { return section.Write(path, "settings", Table(all)) }
