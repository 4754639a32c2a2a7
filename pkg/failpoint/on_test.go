//go:build failpoint

package failpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
)

// TestMain provides a child process that calls two failpoints three times each. Each case needs its
// own process, since a process reads URR_FAILPOINTS only once.
func TestMain(m *testing.M) {
	processtest.Main(m, func() int {
		for range 3 {
			Hit("other")
			if Err("p") != nil {
				return 3
			}
		}
		return 0
	})
}

func TestActions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env    string
		code   int
		killed bool
	}{
		"none":             {env: "", code: 0},
		"another point":    {env: "q=exit", code: 0},
		"exit":             {env: "p=exit", killed: true},
		"exit at third":    {env: "p@3=exit", killed: true},
		"exit at fourth":   {env: "p@4=exit", code: 0},
		"error":            {env: "q=exit; p=error", code: 3},
		"sleep":            {env: "p=sleep:1ms", code: 0},
		"sleep at fourth":  {env: "p@4=sleep:1000h", code: 0},
		"spelling mistake": {env: "p=exti", code: 2},
		"bad count":        {env: "p@0=exit", code: 2},
		"no action":        {env: "p", code: 2},
		"bad sleep":        {env: "p=sleep:long", code: 2},
		"relative hold":    {env: "p=hold:file", code: 2},
		"hold nowhere":     {env: "p=hold:/nowhere/file", code: 2},
		"hit with error":   {env: "other=error", code: 2},
		"wrong clock":      {env: "clock=skew:-5s", code: 0},
		"no other skew":    {env: "p=skew:5s", code: 2},
		"clock dies":       {env: "clock=exit", code: 2},
		"bad skew":         {env: "clock=skew:much", code: 2},
		"skew at third":    {env: "clock@3=skew:5s", code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := processtest.Run(t, map[string]string{Variable: tc.env})
			if !tc.killed && tc.code == 0 {
				require.NoError(t, err, out)
				return
			}
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			st, ok := exit.Sys().(syscall.WaitStatus)
			require.True(t, ok)
			require.Equal(t, tc.killed, st.Signaled(), out)
			if tc.killed {
				require.Equal(t, syscall.SIGKILL, st.Signal())
				return
			}
			require.Equal(t, tc.code, st.ExitStatus(), out)
		})
	}
}

func TestHoldsUntilTheFileIsRemoved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "reached")
	p := processtest.Start(t, map[string]string{Variable: "p@2=hold:" + file})
	testkit.UntilNoError(t, func() error { _, err := os.Stat(file); return err }, "the place to be reached")
	select {
	case <-p.Ended():
		t.Fatal("the process did not stay at the place")
	default:
	}
	require.NoError(t, os.Remove(file))
	require.NoError(t, p.Wait())
}

func TestSleepsAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	for armed, want := range map[string]time.Duration{
		"p=sleep:20ms":               60 * time.Millisecond,
		"p@2=sleep:20ms":             20 * time.Millisecond,
		"p@4=sleep:1h":               0,
		"p@1=sleep:1h;p@3=sleep:30m": 90 * time.Minute,
	} {
		t.Run(armed, func(t *testing.T) {
			t.Parallel()
			all, err := parsePoints(armed)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				for range 3 {
					require.NoError(t, all.err("p"))
				}
				require.Equal(t, want, time.Since(begun))
			})
		})
	}
}

func TestClockIsWrong(t *testing.T) {
	t.Parallel()
	all, err := parsePoints("p=error;clock=skew:-5s")
	require.NoError(t, err)
	require.Equal(t, -5*time.Second, all.skew())
	require.Zero(t, points{}.skew())
}
