package backends

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// newTestSet returns a set whose only backend is a shell script. The default script, for "", is
// ready immediately and ends on request.
func newTestSet(t *testing.T, port int, script string) *Set {
	t.Helper()
	s := New(platform.Layout{Root: t.TempDir()}, false, t.Logf)
	if script == "" {
		// With exec there is one process: no child can outlive the shell and write into the folder.
		script = ": > " + filepath.Join(s.layout.State(), "ready") + "; exec sleep 60"
	}
	s.backends = []backend{{
		name: "redis", ports: []int{port}, stop: syscall.SIGTERM, prepare: doNothing, settle: doNothing, // Stop accepts known names only
		spec: func() (process.Spec, error) {
			return process.Spec{Path: "/bin/sh", Args: []string{"-c", script}}, nil
		},
		ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(s.layout.State(), "ready"))
			return err
		},
	}}
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

// This test is not parallel: until its exec, a process that another test starts would have a copy
// of the socket.
func TestStartErrorNamesThePortOwner(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	port := l.Addr().(*net.TCPAddr).Port
	s := newTestSet(t, port, "exit 0")
	s.checkPort = process.CheckPortOnce
	err = s.Start(t.Context())
	require.ErrorContains(t, err, "port "+strconv.Itoa(port)+" is taken by")
	require.ErrorContains(t, err, "(process "+strconv.Itoa(os.Getpid())+")")
	require.ErrorContains(t, err, "URR_PORT_OFFSET=")
}

func TestStartErrorShowsTheLogOfACrashedBackend(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "echo no space left on device; exit 7")
	err := s.Start(t.Context())
	require.ErrorContains(t, err, "exit status 7")
	require.ErrorContains(t, err, "no space left on device")
	require.False(t, s.Running("redis"))
}

func TestStartIsIdempotentAndStopIsComplete(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	require.Equal(t, []string{"redis"}, s.NotRunning())
	require.NoError(t, s.Start(t.Context()))
	first := s.Status(t.Context())[0]
	require.True(t, first.Ready)
	require.NoError(t, s.Start(t.Context()))
	require.Equal(t, first.PID, s.Status(t.Context())[0].PID)
	require.Empty(t, s.NotRunning())

	require.NoError(t, s.Stop(t.Context(), "postgres"))
	require.True(t, s.Running("redis"), "only what is named is stopped")
	require.NoError(t, s.Stop(t.Context()))
	require.False(t, s.Running("redis"))
	require.Zero(t, s.Status(t.Context())[0].PID)
	require.NoError(t, s.Stop(t.Context()), "stopping twice is stopping once")
}

func TestStopRemovesTemporaryData(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	dir := filepath.Join(t.TempDir(), "urr", "data")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	b := &s.backends[0]
	originalSpec := b.spec
	b.spec = func() (process.Spec, error) {
		spec, err := originalSpec()
		spec.Dir = dir
		return spec, err
	}
	for _, temporary := range []bool{false, true} {
		b.temporary = temporary
		require.NoError(t, s.Start(t.Context()))
		require.DirExists(t, dir)
		require.NoError(t, s.stop(*b))
		if temporary {
			require.NoDirExists(t, filepath.Dir(dir), "its parent is empty, too")
		} else {
			require.DirExists(t, dir)
		}
	}
}

// After a change of URR_PORT_OFFSET, Start moves the running server to the new ports. It must not
// start a second server on the same data.
func TestStartMovesABackendToOtherPorts(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	require.NoError(t, s.Start(t.Context()))
	before := s.Status(t.Context())[0].PID
	s.backends[0].ports = []int{backendtest.FreePort(t)}
	require.NoError(t, s.Start(t.Context()))
	require.NotEqual(t, before, s.Status(t.Context())[0].PID)
	testkit.Until(t, func() bool { return syscall.Kill(before, 0) != nil }, "the first is gone")
}

func TestSignalReachesTheProcess(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	require.ErrorContains(t, s.Signal("redis", syscall.SIGKILL), "does not run")
	require.NoError(t, s.Start(t.Context()))
	require.NoError(t, s.Signal("redis", syscall.SIGKILL))
	require.False(t, s.Running("redis"))
}

func TestChangedPomGetsItsOwnJars(t *testing.T) {
	t.Parallel()
	s := New(platform.Layout{Root: t.TempDir()}, false, t.Logf)
	require.NoError(t, os.MkdirAll(filepath.Dir(s.pomFile("kafka")), 0o755))
	require.NoError(t, os.WriteFile(s.pomFile("kafka"), []byte("4.3.1"), 0o600))
	first, err := s.jarFolder("kafka")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.pomFile("kafka"), []byte("4.4.0"), 0o600))
	second, err := s.jarFolder("kafka")
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

func TestConcurrentStartsStartOneServer(t *testing.T) {
	t.Parallel()
	first := newTestSet(t, backendtest.FreePort(t), "")
	second := New(first.layout, false, t.Logf)
	second.backends = first.backends
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, s := range []*Set{first, second} {
		wg.Go(func() { errs[i] = s.Start(t.Context()) })
	}
	wg.Wait()
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
	require.True(t, first.Running("redis"))
}

func TestLastReleaseStopsTheBackends(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	first, err := s.Acquire(t.Context())
	require.NoError(t, err)
	second, err := s.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, first(t.Context()))
	require.True(t, s.Running("redis"), "the second run still needs it")
	require.NoError(t, second(t.Context()))
	require.False(t, s.Running("redis"))
}

func TestReleaseLeavesKeptBackendsRunning(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	require.NoError(t, s.Start(t.Context()))
	release, err := s.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, release(t.Context()))
	require.True(t, s.Running("redis"), "it ran before")

	require.NoError(t, s.Stop(t.Context()))
	release, err = s.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.StartAndKeep(t.Context()), "make up, in the middle of make test")
	require.NoError(t, release(t.Context()))
	require.True(t, s.Running("redis"), "it is used by others now")
}
