// Package size counts what is written by hand in the checkout. The counts have limits, so that the
// project stays small enough to read.
package size

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Figure is a count and its limit.
type Figure struct {
	Name         string
	Value, Limit int
	// Least is true if the limit is a minimum.
	Least bool
}

func (f Figure) WithinLimit() bool {
	if f.Least {
		return f.Value >= f.Limit
	}
	return f.Value <= f.Limit
}

// String returns a line such as "   540 of at most 600   lines".
func (f Figure) String() string {
	side := "at most"
	if f.Least {
		side = "at least"
	}
	return fmt.Sprintf("%8d of %-8s %8d  %s", f.Value, side, f.Limit, f.Name)
}

// counts has the numbers that are compared with limits.
type counts struct {
	source, tests, scripts int // lines
	words, longest         int // words of documents, and characters of their longest line
	rows                   int
}

// MaxColumns is the most characters that a line of a document may have.
const MaxColumns = 160

// Figures counts the hand-written files of the clone at root. rows is the number of benchmark rows.
func Figures(ctx context.Context, root string, rows int) ([]Figure, error) {
	files, err := Files(ctx, root)
	if err != nil {
		return nil, err
	}
	c := counts{rows: rows}
	for _, name := range files {
		if ext := filepath.Ext(name); ext != ".go" && ext != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", name, err)
		}
		c.addFile(name, text)
	}
	return c.figures(), nil
}

// Files returns the files of the clone at root that git tracks, or would add because they are new.
func Files(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of git: %w", err)
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // the file is deleted, but this is not committed
		case err != nil:
			return nil, fmt.Errorf("list the files of git: %w", err)
		case info.Mode().IsRegular():
			files = append(files, name)
		}
	}
	return files, nil
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func (c *counts) addFile(name string, text []byte) {
	lines := bytes.Count(text, []byte("\n"))
	switch {
	case filepath.Ext(name) == ".md":
		c.words += len(bytes.Fields(text))
		for line := range bytes.Lines(text) {
			c.longest = max(c.longest, utf8.RuneCount(bytes.TrimRight(line, "\r\n")))
		}
	case generated.Match(text):
	case strings.HasSuffix(name, "_test.go"):
		c.tests += lines
	default:
		c.source += lines
		if strings.HasPrefix(name, "scripts/") {
			c.scripts += lines
		}
	}
}

// figures returns the counts with their limits.
func (c *counts) figures() []Figure {
	return []Figure{
		// All .go files except tests and generated files; blank lines and comments count too.
		{"hand-written lines of Go", c.source, 126_200, false},
		// All _test.go files. There must be 85 lines of tests for 100 lines of source.
		{"lines of tests", c.tests, (c.source*85 + 99) / 100, true},
		// The part of the first figure that is under scripts/.
		{"hand-written lines of Go of scripts", c.scripts, 23_900, false},
		// Words of all .md files as wc -w counts them: separated by white space, also in tables and code.
		{"words of documents", c.words, 58_100, false},
		// Characters of the longest line of all .md files, including links, tables and code.
		{"columns of the longest line of a document", c.longest, MaxColumns, false},
		// What `make bench` measures without ROWS=: 20, and two of a crowd of a million.
		{"rows of make bench", c.rows, 22, false},
	}
}
