package programs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/programs"
)

// module creates a checkout with one program, which prints a word. Its path contains characters
// that are special in shells and lists.
func module(t *testing.T) (root, dir string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "a checkout, mine")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "word"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.test\n\ngo 1.24\n"), 0o600))
	writeProgram(t, root, "one")
	return root, filepath.Join(root, "bin")
}

// writeProgram writes the program of the module, which prints the word.
func writeProgram(t *testing.T, root, word string) {
	t.Helper()
	source := "package main\n\nfunc main() { println(\"" + word + "\") }\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "word", "main.go"), []byte(source), 0o600))
}

func build(t *testing.T, root, dir string) error {
	t.Helper()
	var out bytes.Buffer
	err := programs.Build(t.Context(), root, dir, &out, []string{"-buildvcs=false"}, "./word")
	t.Log(out.String())
	return err
}

func requireSays(t *testing.T, dir, word string) os.FileInfo {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "word")).CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, word+"\n", string(out))
	info, err := os.Stat(filepath.Join(dir, "word"))
	require.NoError(t, err)
	return info
}

func TestBuildLinksOnlyWhatHasChanged(t *testing.T) {
	t.Setenv("GOWORK", "off")
	root, dir := module(t)
	killed := filepath.Join(dir, ".new-killed")
	require.NoError(t, os.MkdirAll(killed, 0o755))
	longAgo := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(killed, longAgo, longAgo))
	require.NoError(t, build(t, root, dir))
	first := requireSays(t, dir, "one")
	require.NoError(t, build(t, root, dir))
	require.True(t, os.SameFile(first, requireSays(t, dir, "one")), "the same file, as nothing has changed")

	// A new build does not overwrite the file of the old program, which may still run.
	kept := filepath.Join(root, "kept")
	require.NoError(t, os.Mkdir(kept, 0o755))
	require.NoError(t, os.Link(filepath.Join(dir, "word"), filepath.Join(kept, "word")))
	writeProgram(t, root, "two")
	require.NoError(t, build(t, root, dir))
	requireSays(t, dir, "two")
	requireSays(t, kept, "one")

	require.NoError(t, os.WriteFile(filepath.Join(root, "word", "main.go"), []byte("no program"), 0o600))
	require.Error(t, build(t, root, dir))
	requireSays(t, dir, "two")
	leftovers, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	require.NoError(t, err)
	require.Empty(t, leftovers)
}

func TestConcurrentBuilds(t *testing.T) {
	t.Setenv("GOWORK", "off")
	root, dir := module(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = build(t, root, dir) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	requireSays(t, dir, "one")
}
