package derived_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// The option access of the RPCs is the only statement by hand of who calls whom: the list of services
// reads it, and in the charts it is generated.
func TestCallsAreStatedOnce(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(layout.Root, "scripts", "platform", "services.go"), nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				require.NotEqual(t, "Calls", key.Name, "services.go states calls")
			}
		}
		return true
	})

	charts := filepath.Join(layout.Root, "deploy", "helm")
	values, err := filepath.Glob(filepath.Join(charts, "*", "values.yaml"))
	require.NoError(t, err)
	for _, path := range values {
		chart := filepath.Base(filepath.Dir(path))
		if chart == "urr" || chart == "urr-lib" {
			continue
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		own, rest, found := strings.Cut(string(raw), "# rpc: make settings\n")
		_, after, closed := strings.Cut(rest, "# rpc end\n")
		require.True(t, found && closed, "%s has no generated block rpc", path)
		require.NotContains(t, "\n"+own+after, "\nrpc:", "%s states calls", path)
	}
}
