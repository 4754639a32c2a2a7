package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// The packages exist: if one of its arguments did not, go test would run nothing.
func TestFirstPackagesExist(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	for _, pkg := range slices.Concat(raceFirst, scriptsFirst) {
		found, err := filepath.Glob(filepath.Join(layout.Root, pkg, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, found, pkg)
	}
}
