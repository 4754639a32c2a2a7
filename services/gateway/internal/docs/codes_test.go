package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

// The reference lists the whole catalogue of errors. Each code in it must be in use, so that
// clients need no branch for a code that is never sent.
func TestEveryCodeIsSent(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, "pkg", "errs", "codes_*.go"))
	require.NoError(t, err)
	declared := map[string]string{}
	for _, file := range files {
		maps.Copy(declared, reasons(t, file))
	}
	require.Len(t, declared, len(errs.Catalogue()))
	mentioned := map[string]bool{}
	for _, module := range []string{"pkg", "services"} {
		mentions(t, filepath.Join(root, module), mentioned)
	}
	for name, reason := range declared {
		require.True(t, mentioned[name], "nothing sends %s", reason)
	}
}

// reasons maps the names of the error sentinels in a file to their codes.
func reasons(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	codes := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			call, _ := spec.Values[i].(*ast.CallExpr)
			reason, _ := call.Args[1].(*ast.BasicLit)
			codes[name.Name], err = strconv.Unquote(reason.Value)
			require.NoError(t, err)
		}
		return false
	})
	require.NotEmpty(t, codes)
	return codes
}

// mentions adds the sentinels that are used in a folder, outside tests and the catalogue.
func mentions(t *testing.T, folder string, into map[string]bool) {
	t.Helper()
	name := regexp.MustCompile(`\bErr[A-Z]\w*`)
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		case strings.HasPrefix(d.Name(), "codes_"):
			return nil
		}
		raw, err := os.ReadFile(path)
		qualified := filepath.Base(filepath.Dir(path)) != "errs"
		for _, at := range name.FindAllIndex(raw, -1) {
			if !qualified || strings.HasSuffix(string(raw[:at[0]]), "errs.") {
				into[string(raw[at[0]:at[1]])] = true
			}
		}
		return err
	}))
}
