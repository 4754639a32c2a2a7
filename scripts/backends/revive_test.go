package backends

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/testkit"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// newKilledSet returns a set whose backend was started and killed.
func newKilledSet(t *testing.T) *Set {
	t.Helper()
	s := newTestSet(t, backendtest.FreePort(t), "")
	require.NoError(t, s.Start(t.Context()))
	_, died := s.Died("redis")
	require.False(t, died)
	require.NoError(t, s.Signal("redis", syscall.SIGKILL))
	_, died = s.Died("redis")
	require.True(t, died)
	return s
}

// secondCommand returns another set with the same backend, as a second command of the checkout has.
func secondCommand(t *testing.T, s *Set) *Set {
	t.Helper()
	second := New(s.layout, false, t.Logf)
	second.backends = append([]backend(nil), s.backends...)
	return second
}

func requireRevived(t *testing.T, s *Set, want bool) {
	t.Helper()
	revived, err := s.Revive(t.Context(), "redis")
	require.NoError(t, err)
	require.Equal(t, want, revived)
}

func TestReviveRestartsADeadBackendAndCountsIt(t *testing.T) {
	t.Parallel()
	s := newKilledSet(t)
	before := s.Status(t.Context())[0]
	require.True(t, before.Died)
	require.Zero(t, before.PID)

	requireRevived(t, s, true)
	after := s.Status(t.Context())[0]
	require.False(t, after.Died)
	require.True(t, after.Ready)
	require.Equal(t, 1, after.Restarts)
	require.Equal(t, "signal: killed", after.LastExit)
	require.True(t, after.Started.After(before.Started))

	requireRevived(t, secondCommand(t, s), false) // a second supervisor must not start it again
	require.Equal(t, after.PID, s.Status(t.Context())[0].PID)

	require.NoError(t, s.Signal("redis", syscall.SIGKILL))
	requireRevived(t, secondCommand(t, s), true)
	require.Equal(t, 2, s.Status(t.Context())[0].Restarts)
	require.Equal(t, "ended", s.Status(t.Context())[0].LastExit, "only its parent knows how")
}

func TestReviveIgnoresStoppedBackends(t *testing.T) {
	t.Parallel()
	s := newKilledSet(t)
	require.NoError(t, s.Stop(t.Context()), "a stop of what has died already")
	requireRevived(t, s, false)
	require.False(t, s.Running("redis"))

	s = newKilledSet(t)
	r, _, err := s.loadRecord("redis")
	require.NoError(t, err)
	r.Stopping = true
	require.NoError(t, process.Save(s.layout.RunFile("redis"), r), "a stop that was interrupted")
	_, died := s.Died("redis")
	require.False(t, died)
	requireRevived(t, s, false)
	require.NoError(t, s.Start(t.Context()))
	require.True(t, s.Running("redis"), "a start counts for more than what was before")
	_, died = s.Died("redis")
	require.False(t, died)
}

func TestReviveIgnoresBackendsOnAnotherPortOffset(t *testing.T) {
	t.Parallel()
	s := newKilledSet(t)
	s.backends[0].ports = []int{backendtest.FreePort(t)}
	_, died := s.Died("redis")
	require.False(t, died)
	requireRevived(t, s, false)
}

func TestInterruptedStopIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	s := newTestSet(t, backendtest.FreePort(t), "")
	require.NoError(t, s.Start(t.Context()))
	r, _, err := s.loadRecord("redis")
	require.NoError(t, err)
	r.Stopping = true
	require.NoError(t, process.Save(s.layout.RunFile("redis"), r))
	require.NoError(t, s.Start(t.Context()))
	require.NotEqual(t, r.PID, s.Status(t.Context())[0].PID)
	require.False(t, r.Alive())
}

func TestFailedReviveIsRetried(t *testing.T) {
	t.Parallel()
	s := newKilledSet(t)
	failing := secondCommand(t, s)
	failing.backends[0].spec = func() (process.Spec, error) {
		return process.Spec{Path: "/bin/sh", Args: []string{"-c", "echo no space left on device; exit 7"}}, nil
	}
	require.NoError(t, os.Remove(s.layout.State("ready")))
	_, err := failing.Revive(t.Context(), "redis")
	require.ErrorContains(t, err, "no space left on device")
	failing.backends[0].spec = func() (process.Spec, error) { return process.Spec{Path: "/no such program"}, nil }
	_, err = failing.Revive(t.Context(), "redis")
	require.ErrorContains(t, err, "no such file")
	state := s.Status(t.Context())[0]
	require.True(t, state.Died, "it is still to run")
	require.Equal(t, 2, state.Restarts)

	requireRevived(t, s, true)
	require.Equal(t, 3, s.Status(t.Context())[0].Restarts)
}

func TestStopDuringReviveIsKept(t *testing.T) {
	t.Parallel()
	s := newKilledSet(t)
	require.NoError(t, os.Remove(s.layout.State("ready")))
	s.backends[0].spec = func() (process.Spec, error) { // never ready
		return process.Spec{Path: "/bin/sh", Args: []string{"-c", "exec sleep 60"}}, nil
	}
	type outcome struct {
		revived bool
		err     error
	}
	got := make(chan outcome, 1)
	go func() {
		revived, err := s.Revive(t.Context(), "redis")
		got <- outcome{revived, err}
	}()
	testkit.Until(t, func() bool { return s.Running("redis") }, "the revival is under way")
	require.NoError(t, secondCommand(t, s).Stop(t.Context()))
	require.Equal(t, outcome{}, testkit.Receive(t, got))
	require.False(t, s.Running("redis"))
}

// A killed server can leave child processes, which hold its memory, and a pid file. Another process
// may meanwhile have the id in that file.
func TestReviveKillsProcessesInTheDataFolder(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	s := newTestSet(t, backendtest.FreePort(t), "")
	dir := t.TempDir()
	s.backends[0].pidFile = "server.pid"
	s.backends[0].spec = func() (process.Spec, error) {
		return process.Spec{Path: sleep, Args: []string{"60"}, Dir: dir}, nil
	}
	s.backends[0].ready = doNothing
	pidFile := filepath.Join(dir, "server.pid")
	require.NoError(t, s.Start(t.Context()))
	orphan, err := process.Start(process.Spec{Name: "orphan", Path: sleep, Args: []string{"61"}, Dir: dir, Log: s.layout.LogFile("orphan")})
	require.NoError(t, err)
	elsewhere, err := process.Start(process.Spec{Name: "other", Path: sleep, Args: []string{"62"}, Dir: t.TempDir(), Log: s.layout.LogFile("other")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, elsewhere.Stop(syscall.SIGKILL, stopLimit)) })
	require.NoError(t, os.WriteFile(pidFile, []byte("1\n"), 0o600))

	require.NoError(t, s.Signal("redis", syscall.SIGKILL))
	requireRevived(t, s, true)
	require.False(t, orphan.Alive())
	require.NoFileExists(t, pidFile)
	require.True(t, elsewhere.Alive(), "it is no part of this server")
	require.True(t, s.Running("redis"))
}

func TestReleaseLeavesKeptBackendsThatDied(t *testing.T) {
	t.Parallel()
	s := newKilledSet(t)
	release, err := s.Acquire(t.Context())
	require.NoError(t, err)
	require.True(t, s.Running("redis"))
	require.NoError(t, release(t.Context()))
	require.True(t, s.Running("redis"), "make up keeps it")
}

func TestEveryBackendDescribesItsProcess(t *testing.T) {
	t.Parallel()
	s := New(platform.Layout{Root: t.TempDir()}, false, t.Logf)
	require.Equal(t, []string{"redis", "postgres", "kafka", "dynamodb", "sqs"}, s.Names())
	_, err := s.Revive(t.Context(), "mongodb")
	require.ErrorContains(t, err, `no backend "mongodb"`)
}
