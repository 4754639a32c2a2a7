// Package size counts what is written by hand in the checkout. Some counts have limits, so that the
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
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Figure is a count, and its limit if it has one.
type Figure struct {
	Name  string
	Value int
	Bound Bound
	Limit int
}

// Bound says what the limit of a figure is; the zero value: the figure has no limit.
type Bound string

// The bounds of figures that have a limit.
const (
	AtMost  Bound = "at most"
	AtLeast Bound = "at least"
)

func (f Figure) WithinLimit() bool {
	switch f.Bound {
	case AtMost:
		return f.Value <= f.Limit
	case AtLeast:
		return f.Value >= f.Limit
	default:
		return true
	}
}

// String returns a line such as "     540 of at most       600  lines" or
// "     540 without limit         lines".
func (f Figure) String() string {
	limit := "without limit"
	if f.Bound != "" {
		limit = fmt.Sprintf("of %-8s %8d", f.Bound, f.Limit)
	}
	return fmt.Sprintf("%8d %-20s  %s", f.Value, limit, f.Name)
}

// budget is the most that a part may have: what it had when the limit was set, and what changes
// since then were allowed to add.
type budget struct {
	base       int
	allowances []allowance
}

// allowance is the number of lines that one larger change may add.
type allowance struct {
	change string
	lines  int
}

func (b budget) limit() int {
	limit := b.base
	for _, a := range b.allowances {
		limit += a.lines
	}
	return limit
}

// The bases are the figures of commit 3968421d. A change that needs more than what is left adds an
// allowance, which says what the change is for.
var (
	productBudget = budget{92_719, []allowance{
		{"nobody gets a ticket for nothing", 300},
		{"money by hand, void, refunds judged when they are asked for", 1400},
		{"no thief takes a hall off sale", 700},
		{"providers at the speed of a sale, refusals that end, money that comes back", 1880},
		{"records and calls that prove themselves", 2540},
		{"partitions, herds and replicas that lose their way", 1900},
	}}
	workshopBudget = budget{33_476, []allowance{
		{"nobody gets a ticket for nothing", 850},
		{"money by hand, void, refunds judged when they are asked for", 600},
		{"no thief takes a hall off sale", 500},
		{"records and calls that prove themselves", 540},
		{"a DynamoDB as strict as the real one", 1800},
	}}
)

// counts has the counts of lines of each kind of file, and of documents and benchmark rows.
type counts struct {
	product, workshop, tests int // Go
	pages, stores            int // TypeScript; SQL and Lua
	interfaces, charts       int
	words, longest           int // words of documents, and characters of their longest line
	rows                     int
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
		kind := c.kind(name)
		if kind == nil && !isDocument(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", name, err)
		}
		switch {
		case kind == nil:
			c.addDocument(text)
		case !generated.Match(text):
			*kind += bytes.Count(text, []byte("\n"))
		}
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

// kind returns the count of lines to which a file belongs, or nil if its lines are not counted.
func (c *counts) kind(name string) *int {
	switch ext := path.Ext(name); {
	case strings.HasSuffix(name, "_test.go"):
		return &c.tests
	case ext == ".go" && inWorkshop(name):
		return &c.workshop
	case ext == ".go":
		return &c.product
	case (ext == ".ts" || ext == ".tsx") && strings.HasPrefix(name, "services/gateway/web/src/"):
		return &c.pages
	case ext == ".sql" || ext == ".lua":
		return &c.stores
	case ext == ".proto":
		return &c.interfaces
	case (ext == ".yaml" || ext == ".tpl") && strings.HasPrefix(name, "deploy/helm/"):
		return &c.charts
	}
	return nil
}

// inWorkshop reports whether a Go file is of the workshop: what builds, runs and tests the product.
// These are all files of scripts, and those below a folder that is named fakes or sandbox, or whose
// name ends in test, such as replicatest. Nothing but the name counts: pkg/testkit is of the
// product, and payment's client of the sandbox (services/payment/internal/sandbox) of the workshop.
func inWorkshop(name string) bool {
	folders := strings.Split(path.Dir(name), "/")
	return folders[0] == "scripts" || slices.ContainsFunc(folders, func(folder string) bool {
		return folder == "fakes" || folder == "sandbox" || strings.HasSuffix(folder, "test")
	})
}

func isDocument(name string) bool { return path.Ext(name) == ".md" }

func (c *counts) addDocument(text []byte) {
	c.words += len(bytes.Fields(text))
	for line := range bytes.Lines(text) {
		c.longest = max(c.longest, utf8.RuneCount(bytes.TrimRight(line, "\r\n")))
	}
}

// figures returns the counts with their limits. Lines are those of files that are not generated;
// blank lines and comments count too.
func (c *counts) figures() []Figure {
	return []Figure{
		{"lines of Go of the product", c.product, AtMost, productBudget.limit()},
		{"lines of Go of the workshop", c.workshop, AtMost, workshopBudget.limit()},
		// All _test.go files. There must be 85 lines of tests for 100 lines of product and workshop.
		{"lines of tests", c.tests, AtLeast, ((c.product+c.workshop)*85 + 99) / 100},
		{Name: "lines of TypeScript of the pages", Value: c.pages},
		{Name: "lines of SQL and Lua", Value: c.stores},
		{Name: "lines of interfaces (.proto)", Value: c.interfaces},
		// All .yaml and .tpl files of deploy/helm.
		{Name: "lines of charts and their tests", Value: c.charts},
		// Words of all .md files as wc -w counts them: separated by white space, also in tables and code.
		{Name: "words of documents", Value: c.words},
		// Characters of the longest line of all .md files, including links, tables and code.
		{"columns of the longest line of a document", c.longest, AtMost, MaxColumns},
		// What `make bench` measures without ROWS=: what guards a hot path, and what plans are made of.
		{"rows of make bench", c.rows, AtMost, 16},
	}
}
