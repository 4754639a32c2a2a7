package lifecycle

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type serviceConfig struct {
	Config

	Threshold int `env:"LIFECYCLE_TEST_THRESHOLD, default=5" min:"1"`
}

func TestCommand(t *testing.T) {
	nothing := func(context.Context, *serviceConfig, *slog.Logger) error { return nil }
	for name, tc := range map[string]struct {
		args   []string
		env    map[string]string
		run    func(context.Context, *serviceConfig, *slog.Logger) error
		code   int
		stdout string
		stderr string
	}{
		"serve by default": {run: nothing},
		"serve":            {args: []string{"serve"}, run: nothing},
		"version":          {args: []string{"version"}, stdout: "ticket "},
		"nothing to migrate": {
			args: []string{"migrate"}, stdout: "ticket has nothing to migrate\n",
		},
		"unknown command": {args: []string{"dance"}, code: 2, stderr: "usage: ticket [serve|migrate|version]\n"},
		"too many":        {args: []string{"serve", "now"}, code: 2, stderr: "usage: "},
		"bad values": {
			env: map[string]string{"LIFECYCLE_TEST_THRESHOLD": "abc", "DRAIN": "soon"}, code: 2,
			stderr: "config: DRAIN=\"soon\": must be a duration (as 30s or 5m) ≥ 0s and ≤ 10m\nconfig: LIFECYCLE_TEST_THRESHOLD=\"abc\": must be a whole number ≥ 1\n",
		},
		"failure": {
			run:  func(context.Context, *serviceConfig, *slog.Logger) error { return errors.New("port taken") },
			code: 1, stdout: `"error":"port taken"`,
		},
		"defaults": {
			run: func(_ context.Context, c *serviceConfig, _ *slog.Logger) error {
				if c.Threshold != 5 || c.Drain.Seconds() != 5 || c.ShutdownTimeout.Seconds() != 20 {
					return errors.New("wrong defaults")
				}
				return nil
			},
		},
		"canceled by someone else": {
			run:  func(context.Context, *serviceConfig, *slog.Logger) error { return context.Canceled },
			code: 1, stdout: "canceled",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			var stdout, stderr bytes.Buffer
			code := command(t.Context(), "ticket", tc.args, &stdout, &stderr, tc.run, nil)
			require.Equal(t, tc.code, code, "%s%s", stdout.String(), stderr.String())
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
		})
	}
}

func TestMigrateRunsInsteadOfServe(t *testing.T) {
	var out bytes.Buffer
	migrated := false
	code := command(t.Context(), "ticket", []string{"migrate"}, &out, &out,
		func(context.Context, *serviceConfig, *slog.Logger) error { return errors.New("served") },
		func(context.Context, *serviceConfig, *slog.Logger) error { migrated = true; return nil })
	require.Zero(t, code, out.String())
	require.True(t, migrated)
}

// A job that is told to stop in the middle must not look as if it were done.
func TestInterruptedMigrationIsNotDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted := func(ctx context.Context, _ *serviceConfig, _ *slog.Logger) error { return ctx.Err() }
	var out bytes.Buffer
	require.Equal(t, 1, command(ctx, "ticket", []string{"migrate"}, &out, &out, interrupted, interrupted))
	require.Zero(t, command(ctx, "ticket", []string{"serve"}, &out, &out, interrupted, interrupted), "stopped while it started")
}

// The first SIGTERM begins the shutdown, the second ends the process: an operator need not wait for what hangs.
func TestSecondSignalEndsTheProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")
	cmd.Env = append(os.Environ(), "LIFECYCLE_TEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	wait := func(want string) {
		for lines.Scan() && lines.Text() != want {
		}
		require.Equal(t, want, lines.Text())
	}
	wait("serving")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	wait("stopping")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	require.Eventually(t, func() bool { // the first of them may still meet the handler of the first
		_ = cmd.Process.Signal(syscall.SIGTERM)
		return len(ended) > 0
	}, 30*time.Second, 10*time.Millisecond)
	var exit *exec.ExitError
	require.ErrorAs(t, <-ended, &exit)
	st, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGTERM, st.Signal())
}

// TestHelperProcess is a service whose shutdown hangs.
func TestHelperProcess(t *testing.T) {
	if os.Getenv("LIFECYCLE_TEST_CHILD") == "" {
		t.Skip("run by TestSecondSignalEndsTheProcess")
	}
	os.Args = os.Args[:1]
	os.Exit(Main("ticket", func(ctx context.Context, _ *serviceConfig, _ *slog.Logger) error {
		fmt.Println("serving")
		<-ctx.Done()
		fmt.Println("stopping")
		select {}
	}, nil))
}

func TestConfigMustBeEmbedded(t *testing.T) {
	var out bytes.Buffer
	type bare struct{}
	code := command(t.Context(), "ticket", nil, &out, &out, func(context.Context, *bare, *slog.Logger) error { return nil }, nil)
	require.Equal(t, 2, code)
	require.Contains(t, out.String(), "does not embed lifecycle.Config")
}
