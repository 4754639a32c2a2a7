package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

func sleeper(t *testing.T, script string) *Process {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Spec{Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", script}, Log: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop(syscall.SIGKILL, 0)) })
	testkit.Until(t, func() bool { return Tail(log, 1) == "ready" })
	return p
}

func TestAliveComparesStartTimeAndBoot(t *testing.T) {
	t.Parallel()
	p := sleeper(t, "echo ready; sleep 60")
	require.True(t, p.Alive())

	reused := p.Identity
	reused.Start++
	require.False(t, reused.Alive(), "another process with the same id")
	require.ErrorIs(t, reused.Signal(syscall.SIGKILL), os.ErrProcessDone)

	rebooted := p.Identity
	rebooted.Boot = "another boot"
	require.False(t, rebooted.Alive())
	require.False(t, Identity{}.Alive())
	require.True(t, p.Alive(), "nobody else was signalled")
}

func TestStopSendsSIGTERMFirst(t *testing.T) {
	t.Parallel()
	p := sleeper(t, `trap "exit 5" TERM; echo ready; while :; do sleep 0.01; done`)
	require.NoError(t, p.Stop(syscall.SIGTERM, time.Hour))
	<-p.Done()
	require.Equal(t, "exit status 5", p.Exit())
}

func TestStopKillsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	p := sleeper(t, `trap "" TERM; echo ready; while :; do sleep 0.01; done`)
	require.NoError(t, p.Stop(syscall.SIGTERM, 50*time.Millisecond))
	<-p.Done()
	require.Equal(t, "signal: killed", p.Exit())
	require.NoError(t, p.Stop(syscall.SIGTERM, 0), "stopping twice is stopping once")
}

// After SIGKILL, Signal returns only when the process has ended, so that its port is free again.
func TestSignalWaitsForAKilledProcessToEnd(t *testing.T) {
	t.Parallel()
	for range 20 {
		p := sleeper(t, "echo ready; sleep 60")
		require.NoError(t, p.Signal(syscall.SIGKILL))
		require.False(t, p.Alive())
	}
}

func TestRunningInFindsAProgramByItsFolder(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	folder, otherFolder := t.TempDir(), t.TempDir()
	start := func(path, dir string, args ...string) Identity {
		p, err := Start(Spec{Name: "sleeper", Path: path, Args: args, Dir: dir, Log: filepath.Join(t.TempDir(), "log")})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Stop(syscall.SIGKILL, 0)) })
		return p.Identity
	}
	first := start(sleep, folder, "60")
	start(sleep, otherFolder, "60")
	start("/bin/sh", folder, "-c", "while :; do read line; done")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(folder, link))
	for _, dir := range []string{folder, link} {
		found, err := RunningIn(dir, sleep)
		require.NoError(t, err)
		require.Equal(t, []Identity{first}, found)
	}
	require.NoError(t, first.Signal(syscall.SIGKILL))
	found, err := RunningIn(folder, sleep)
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	tail := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21"
	for name, tt := range map[string]struct {
		raw   string
		start uint64
		fails bool
	}{
		"plain":                    {raw: "42 (redis-server)" + tail, start: 987654},
		"a name like a whole line": {raw: "42 (a) Z 1 (b))" + tail, start: 987654},
		"cut off":                  {raw: "42 (redis", fails: true},
		"too short":                {raw: "42 (redis) S 1 2", fails: true},
	} {
		got, err := parseStat(tt.raw)
		if tt.fails {
			require.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, processState{state: 'S', threads: 17, start: tt.start}, got, name)
	}
}

func TestConcurrentSaves(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record.json")
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = Save(path, Identity{PID: i + 1, Boot: fmt.Sprint("boot ", i)}) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	var id Identity
	found, err := Load(path, &id)
	require.NoError(t, err)
	require.True(t, found)
	leftovers, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	require.NoError(t, err)
	require.Empty(t, leftovers)
}
