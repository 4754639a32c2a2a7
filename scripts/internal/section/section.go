// Package section replaces generated sections in files. In Markdown, a section is between the lines
// `<!-- NAME: make NAME -->` and `<!-- NAME end -->`, in YAML between `# NAME: make settings` and
// `# NAME end`.
package section

import (
	"fmt"
	"os"
	"strings"

	"urr.guru/scripts/internal/files"
)

// Write replaces the text of a section in the Markdown file at path.
func Write(path, name, text string) error {
	return rewrite(path, func(document string) (string, error) { return Replace(document, name, text) })
}

// WriteYAML replaces a section in the YAML file at path. It indents the text like the first mark.
func WriteYAML(path, name, text string) error {
	return rewrite(path, func(document string) (string, error) {
		begin, end := "# "+name+": make settings\n", "# "+name+" end\n"
		before, _, _ := strings.Cut(document, begin)
		indent := before[strings.LastIndex(before, "\n")+1:]
		return replace(document, name, begin, indent+end, indent+strings.ReplaceAll(text, "\n", "\n"+indent)+"\n")
	})
}

// Replace returns a Markdown document in which the named section has the given text.
func Replace(document, name, text string) (string, error) {
	return replace(document, name, fmt.Sprintf("<!-- %s: make %s -->\n", name, name), fmt.Sprintf("<!-- %s end -->\n", name), "\n"+text+"\n")
}

func replace(document, name, begin, end, text string) (string, error) {
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("has no place for the %s: the lines %q and %q", name, begin, end)
	}
	return before + begin + text + end + after, nil
}

func rewrite(path string, change func(string) (string, error)) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write a section: %w", err)
	}
	document, err := change(string(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return files.Put(path, []byte(document))
}
