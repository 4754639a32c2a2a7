package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// Each fuzz test has saved inputs: without them, `make test` would check only its own examples.
func TestFuzzTestsHaveSavedInputs(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	all, err := fuzzTests(layout.Root)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, f := range all {
		saved, err := filepath.Glob(filepath.Join(layout.Root, f.dir, "testdata", "fuzz", f.name, "*"))
		require.NoError(t, err)
		require.NotEmpty(t, saved, "%s of %s", f.name, f.dir)
	}
}
