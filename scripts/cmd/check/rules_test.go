package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/releases"
	"urr.guru/scripts/internal/size"
	"urr.guru/scripts/platform"
)

// switchFile has switches: constants for what is kept for the release before; see guideFile.
const (
	switchFile = "pkg/compat/compat.go"
	guideFile  = ".github/CONTRIBUTING.md"
)

// tracked returns the root of the checkout and the paths of its files relative to the root.
func tracked(t *testing.T) (root string, names []string) {
	t.Helper()
	layout, err := platform.Find()
	require.NoError(t, err)
	names, err = size.Files(t.Context(), layout.Root)
	require.NoError(t, err)
	return layout.Root, names
}

// oldWords matches phrases for the release before, also across a line break in a comment or list.
var oldWords = regexp.MustCompile(`(?i)\b(previous|earlier|former)[\s/*#>;-]+releases?\b`)

// releasePhrase returns the first phrase for the release before in a text; empty: there is none.
func releasePhrase(text string) string {
	if strings.Contains(text, "\x00") {
		return "" // not text
	}
	return oldWords.FindString(text)
}

// Only switches may mention the release before, since whatever is kept for it must be a switch.
func TestOnlySwitchesNameTheReleaseBefore(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, releasePhrase("\t// of the Former\n\t// release, which"))
	require.NotEmpty(t, releasePhrase("- of the previous\n  releases"))
	require.Empty(t, releasePhrase("the previous revision, released"))
	root, names := tracked(t)
	var found []string
	for _, name := range names {
		if words := releasePhrase(text(t, root, name)); words != "" && name != switchFile && name != guideFile {
			found = append(found, fmt.Sprintf("%s: %q", name, words))
		}
	}
	require.Empty(t, strings.Join(found, "\n"), "make it a switch of %s, or delete it", switchFile)
}

func TestDocumentsHaveShortLines(t *testing.T) {
	t.Parallel()
	root, names := tracked(t)
	var found []string
	for _, name := range names {
		if filepath.Ext(name) != ".md" {
			continue
		}
		n := 0
		for line := range strings.Lines(text(t, root, name)) {
			n++
			if columns := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); columns > size.MaxColumns {
				found = append(found, fmt.Sprintf("%s:%d: %d columns", name, n, columns))
			}
		}
	}
	require.Empty(t, strings.Join(found, "\n"), "a line of a document has at most %d columns", size.MaxColumns)
}

var removedIn = regexp.MustCompile(`^removed in (\S+)\n$`)

// badSwitches lists what is wrong with a file of switches, when newest is the newest release.
func badSwitches(source string, newest releases.Tag) (bad []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), switchFile, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			bad = append(bad, "a declaration that is no constant")
			continue
		}
		for _, spec := range gen.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || len(value.Names) != 1 {
				bad = append(bad, "several constants in one line")
				continue
			}
			bad = append(bad, badSwitch(gen, value, newest)...)
		}
	}
	return bad, nil
}

func badSwitch(gen *ast.GenDecl, value *ast.ValueSpec, newest releases.Tag) (bad []string) {
	name := value.Names[0].Name
	if value.Doc.Text() == "" && (gen.Lparen.IsValid() || gen.Doc.Text() == "") {
		bad = append(bad, name+" has no comment")
	}
	m := removedIn.FindStringSubmatch(value.Comment.Text())
	if m == nil {
		return append(bad, name+" does not say in which release it is removed")
	}
	switch passed, err := newest.Reaches(m[1]); {
	case err != nil:
		bad = append(bad, name+": "+err.Error())
	case passed:
		bad = append(bad, fmt.Sprintf("%s was to be removed in %s, and %s is released", name, m[1], newest))
	}
	return bad
}

func TestSwitchesNameTheReleaseThatRemovesThem(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	newest, err := releases.Of(t.Context(), layout.Root)
	require.NoError(t, err)
	bad, err := badSwitches(text(t, layout.Root, switchFile), newest)
	require.NoError(t, err)
	require.Empty(t, bad)
}

func TestBadSwitches(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		"":                                   nil,
		"// A is.\nconst A = true":           {"A does not say in which release it is removed"},
		"const A = true // removed in 0.3.0": {"A has no comment"},
		"// A is.\nconst A = true // removed in 0.3.0":                          nil,
		"// A is.\nconst A = true // removed in 0.2.0":                          {"A was to be removed in 0.2.0, and v0.2.1 is released"},
		"// A is.\nconst A = true // removed in spring":                         {`A: "spring" is not a version such as 0.3.0`},
		"// All.\nconst (\n// A is.\nA = true // removed in 1.0.0\n)":           nil,
		"// All.\nconst (\nA = true // removed in 1.0.0\n)":                     {"A has no comment"},
		"// A is.\nvar A = true // removed in 0.3.0":                            {"a declaration that is no constant"},
		"// A, B are.\nconst A, B = true, true // removed in 0.3.0":             {"several constants in one line"},
		"// A is.\nconst A = true // removed in 0.3.0, or perhaps never at all": {"A does not say in which release it is removed"},
	} {
		bad, err := badSwitches("package compat\n\n"+source, "v0.2.1")
		require.NoError(t, err, source)
		require.Equal(t, want, bad, source)
	}
	_, err := badSwitches("package", "")
	require.Error(t, err)
}
