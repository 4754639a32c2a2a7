package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResetRemovesOnlyTheData(t *testing.T) {
	r := setup(t)
	ledger := r.layout.State("data", "sandbox", "ledger.jsonl")
	kept := []string{r.layout.Shared("jars", "kafka", "a.jar"), r.layout.State("secrets.json")}
	for _, path := range append(kept, ledger) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	require.NoError(t, r.Reset(t.Context()))
	require.NoFileExists(t, ledger)
	for _, path := range kept {
		require.FileExists(t, path)
	}
	require.NoError(t, r.Reset(t.Context()), "twice is once")
}
