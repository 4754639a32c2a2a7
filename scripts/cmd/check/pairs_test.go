package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"urr.guru/scripts/platform"
)

// generatedPairs matches the callers and callees in a chart's values that `make settings` writes.
var generatedPairs = regexp.MustCompile(`(?ms)^ *# rpc: make settings$.*?^ *# rpc end$`)

// statesPairs reports whether callers or callees are written by hand into the values of a chart.
func statesPairs(t *testing.T, values string) bool {
	t.Helper()
	var byHand map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(generatedPairs.ReplaceAllString(values, "")), &byHand))
	_, states := byHand["rpc"]
	return states
}

func TestStatesPairs(t *testing.T) {
	t.Parallel()
	const generated = "image: {}\n# rpc: make settings\nrpc:\n  callers: [gateway]\n# rpc end\n"
	require.False(t, statesPairs(t, generated))
	require.True(t, statesPairs(t, "image: {}\nrpc: {callers: [gateway]}\n"))
	require.True(t, statesPairs(t, "# rpc: make settings\n# rpc end\nrpc:\n  calls:\n    ticket: {address: \"\"}\n"))
}

// Which service calls which is written only in the option `access` of the RPCs. Everything else is
// generated or read from it.
func TestPairsAreStatedOnce(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	list := text(t, layout.Root, "scripts", "platform", "services.go")
	require.False(t, strings.Contains(list, "Calls:"), "services.go lists callees by hand") //nolint:testifylint // the file is no message
	for _, s := range platform.Services() {
		if s.Name == platform.Sandbox {
			continue
		}
		chart := filepath.Join(layout.Root, "deploy", "helm", s.Name)
		values := text(t, chart, "values.yaml")
		require.Regexp(t, generatedPairs, values, "values.yaml of %s has no generated block rpc", s.Name)
		require.False(t, statesPairs(t, values), "values.yaml of %s states calls", s.Name)
		schema, err := os.ReadFile(filepath.Join(chart, "schema.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		var parts map[string]any
		require.NoError(t, json.Unmarshal(schema, &parts))
		require.NotContains(t, parts, "rpc", "schema.json of %s", s.Name)
	}
}
