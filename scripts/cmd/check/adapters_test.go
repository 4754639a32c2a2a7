package main

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/platform"
)

// The adapters of a service do not import each other, since the package app connects them. Only the
// adapter in the folder above may import queries that sqlc generates.
func TestAdaptersDoNotImportEachOther(t *testing.T) {
	t.Parallel()
	layout, err := platform.Find()
	require.NoError(t, err)
	adapters := adapters(t, layout.Root)
	require.Greater(t, len(adapters), 25)
	for _, file := range files(t, filepath.Join(layout.Root, "services"), ".go") {
		pkg := path.Join("services", path.Dir(filepath.ToSlash(file)))
		for _, imported := range imports(t, filepath.Join(layout.Root, "services", file)) {
			if adapter, found := strings.CutSuffix(imported, "/db"); found && slices.Contains(adapters, adapter) {
				require.True(t, strings.HasPrefix(pkg+"/", adapter+"/"), "%s imports the generated queries of %s", file, adapter)
			}
			if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(pkg, "test") || !slices.Contains(adapters, imported) {
				continue
			}
			isAbove := func(adapter string) bool { return strings.HasPrefix(pkg+"/", adapter+"/") }
			shared := imported == "services/ticket/internal/postgres" && isAbove(imported) || // the ticket service's stores share it
				imported == "services/payment/internal/limits" // what two adapters convert
			require.False(t, slices.ContainsFunc(adapters, isAbove) && !shared, "%s imports the adapter %s", file, imported)
		}
	}
}

// adapters returns the folders of the services' adapters: folders named after a store or a
// protocol, and the clients that the linter's rule `domain` (.golangci.yml) excludes.
func adapters(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	for _, adapter := range []string{"rpc", "postgres", "redis", "dynamo", "sqs", "kafka"} {
		folders, err := filepath.Glob(filepath.Join(root, "services", "*", "internal", adapter))
		require.NoError(t, err)
		for _, folder := range folders {
			name, err := filepath.Rel(root, folder)
			require.NoError(t, err)
			all = append(all, filepath.ToSlash(name))
		}
	}
	clients := regexp.MustCompile(`"!\$\{config-path\}/(services/\w+/internal/\w+)/\*\*"`).FindAllStringSubmatch(text(t, root, ".golangci.yml"), -1)
	require.NotEmpty(t, clients)
	for _, m := range clients {
		all = append(all, m[1])
	}
	return all
}

// imports returns the packages of the checkout that a file imports.
func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	var all []string
	for _, i := range parsed.Imports {
		if local, found := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), "urr.guru/"); found {
			all = append(all, local)
		}
	}
	return all
}
