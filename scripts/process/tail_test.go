package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTail(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("one\ntwo\nthree\nfour\n"), 0o600))
	require.Equal(t, "three\nfour", Tail(path, 2))
	require.Equal(t, "one\ntwo\nthree\nfour", Tail(path, 9))
	require.Equal(t, "three\nfour", TailFrom(path, int64(len("one\ntwo\n")), 9), "what an earlier run wrote stays out")
	require.Equal(t, "(nothing)", TailFrom(path, int64(len("one\ntwo\nthree\nfour\n")), 9))
	require.Equal(t, "four", TailFrom(path, 1000, 1), "the file was set aside meanwhile")

	long := strings.Repeat("a line of a hundred kilobytes\n", 4000)
	require.NoError(t, os.WriteFile(path, []byte(long+"the end\n"), 0o600))
	require.Equal(t, "a line of a hundred kilobytes\nthe end", Tail(path, 2))
	require.Contains(t, Tail(filepath.Join(t.TempDir(), "absent"), 1), "no such file")
}
