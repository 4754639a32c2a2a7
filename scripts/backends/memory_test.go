package backends

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

func TestHeapFollowsTheMachine(t *testing.T) {
	t.Parallel()
	for memory, heap := range map[uint64]uint64{1 << 30: 256, 4 << 30: 256, 8 << 30: 512, 16 << 30: 1024, 256 << 30: 1024} {
		require.Equal(t, heap, heapMiB(memory))
	}
}

// A JVM without memory would go on and answer with errors.
func TestJavaServersEndWithoutMemory(t *testing.T) {
	t.Parallel()
	s := New(platform.Layout{Root: filepath.Join("..", "..")}, false, t.Logf)
	for _, name := range []string{"kafka", "dynamodb", "sqs"} {
		b, err := s.findBackend(name)
		require.NoError(t, err)
		spec, err := b.spec()
		require.NoError(t, err)
		require.Contains(t, spec.Args, "-XX:+ExitOnOutOfMemoryError")
		require.Contains(t, strings.Join(spec.Args, " "), " -Xmx")
	}
}

// Status, the supervisor and the next start say why a server ended.
func TestEndWithoutMemoryIsSaid(t *testing.T) {
	t.Parallel()
	s := newKilledSet(t)
	var said strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	supervisor, up := secondCommand(t, s), secondCommand(t, s)
	supervisor.say, up.say = say, say
	log, err := os.OpenFile(s.layout.LogFile("redis"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = log.WriteString("something\nTerminating due to java.lang.OutOfMemoryError: Java heap space\n")
	require.NoError(t, err)
	require.NoError(t, log.Close())
	requireRevived(t, supervisor, true)
	const reason = "out of memory (Java heap space): make reset removes its data; ended"
	require.Equal(t, reason, s.Status(t.Context())[0].LastExit)
	require.Contains(t, said.String(), "redis            ended, starting it again: "+reason+"\n")
	require.NoError(t, up.Start(t.Context()))
	require.Contains(t, said.String(), "redis            restarts: 1, last exit: "+reason+"\n")
}

func TestServerWithErrorsIsNotReady(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/failing" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	require.NoError(t, checkResponds(t.Context(), server.URL))
	require.ErrorContains(t, checkResponds(t.Context(), server.URL+"/failing"), "500 Internal Server Error")
}

func TestStatusShowsTheSizeOfTheData(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	dir := t.TempDir()
	s.backends[0].spec = func() (process.Spec, error) { return process.Spec{Dir: dir}, nil }
	require.NoError(t, os.Mkdir(filepath.Join(dir, "below"), 0o755))
	before := s.Status(t.Context())[0].DataBytes
	const size = 3 << 20
	require.NoError(t, os.WriteFile(filepath.Join(dir, "below", "segment"), make([]byte, size), 0o600))
	sparse, err := os.Create(filepath.Join(dir, "index"))
	require.NoError(t, err)
	require.NoError(t, errors.Join(sparse.Truncate(100*size), sparse.Close()))
	require.InDelta(t, before+size, s.Status(t.Context())[0].DataBytes, size/2)
	s.backends[0].spec = func() (process.Spec, error) { return process.Spec{Dir: filepath.Join(dir, "none")}, nil }
	require.Zero(t, s.Status(t.Context())[0].DataBytes)
}
