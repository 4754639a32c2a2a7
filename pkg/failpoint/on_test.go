//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In the package itself, since a process arms its points only once: each case runs in a process of its own.
func TestHelperProcess(t *testing.T) {
	if os.Getenv("FAILPOINT_CHILD") == "" {
		t.Skip("run by TestActions")
	}
	start := time.Now()
	for range 3 {
		Hit("other")
		if err := Err("p"); err != nil {
			os.Exit(3)
		}
	}
	fmt.Println(time.Since(start))
	os.Exit(0)
}

func TestActions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env    string
		code   int
		killed bool
		sleeps time.Duration
	}{
		"none":             {env: "", code: 0},
		"another point":    {env: "q=exit", code: 0},
		"exit":             {env: "p=exit", killed: true},
		"exit at third":    {env: "p@3=exit", killed: true},
		"exit at fourth":   {env: "p@4=exit", code: 0},
		"error":            {env: "q=exit; p=error", code: 3},
		"sleep":            {env: "p=sleep:20ms", sleeps: 60 * time.Millisecond},
		"sleep at second":  {env: "p@2=sleep:20ms", sleeps: 20 * time.Millisecond},
		"sleep at fourth":  {env: "p@4=sleep:1h"},
		"spelling mistake": {env: "p=exti", code: 2},
		"bad count":        {env: "p@0=exit", code: 2},
		"no action":        {env: "p", code: 2},
		"bad sleep":        {env: "p=sleep:long", code: 2},
		"hit with error":   {env: "other=error", code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")
			cmd.Env = append(os.Environ(), "FAILPOINT_CHILD=1", Variable+"="+tc.env)
			out, err := cmd.Output()
			var exit *exec.ExitError
			if !tc.killed && tc.code == 0 {
				require.NoError(t, err)
				took, err := time.ParseDuration(strings.TrimSpace(string(out)))
				require.NoError(t, err)
				require.GreaterOrEqual(t, took, tc.sleeps)
				return
			}
			require.True(t, errors.As(err, &exit), "%v", err)
			st, ok := exit.Sys().(syscall.WaitStatus)
			require.True(t, ok)
			require.Equal(t, tc.killed, st.Signaled())
			if tc.killed {
				require.Equal(t, syscall.SIGKILL, st.Signal())
				return
			}
			require.Equal(t, tc.code, st.ExitStatus())
		})
	}
}
