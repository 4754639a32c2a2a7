package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/processtest"
	"urr.guru/pkg/testkit"
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
		"unknown command": {args: []string{"dance"}, code: 2, stderr: "usage: ticket [serve|migrate|check|version]\n"},
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
			code := runCommand(t.Context(), "ticket", tc.args, &stdout, &stderr, tc.run, nil)
			require.Equal(t, tc.code, code, "%s%s", stdout.String(), stderr.String())
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
		})
	}
}

func TestExtraCommands(t *testing.T) {
	outbox := Command[serviceConfig]{Usage: "outbox [parked]", Run: func(_ context.Context, c *serviceConfig, args []string, out io.Writer) error {
		if len(args) == 0 {
			return errors.New("what of it?")
		}
		if code, err := strconv.Atoi(args[0]); err == nil {
			return fmt.Errorf("wrapped: %w", &Exit{Code: code})
		}
		_, err := fmt.Fprintln(out, args, c.Threshold)
		return err
	}}
	call := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = runCommand(t.Context(), "ticket", args, &out, &errs, nil, nil, outbox)
		return code, out.String(), errs.String()
	}
	code, stdout, _ := call("outbox", "parked", "k")
	require.Zero(t, code)
	require.Equal(t, "[parked k] 5\n", stdout)
	code, _, stderr := call("outbox")
	require.Equal(t, 1, code)
	require.Equal(t, "what of it?\n", stderr)
	code, _, stderr = call("outbox", "7")
	require.Equal(t, 7, code)
	require.Empty(t, stderr, "the output says why")
	code, _, stderr = call("dance")
	require.Equal(t, 2, code)
	require.Equal(t, "usage: ticket [serve|migrate|check|version|outbox [parked]]\n", stderr)
	replaced := Command[serviceConfig]{Usage: "migrate [--fast]", Run: outbox.Run}
	var out, problems bytes.Buffer
	require.Zero(t, runCommand(t.Context(), "ticket", []string{"migrate", "--fast"}, &out, &problems, nil, nil, replaced))
	require.Equal(t, "[--fast] 5\n", out.String())
	require.Equal(t, 2, runCommand(t.Context(), "ticket", []string{"dance"}, &out, &problems, nil, nil, replaced))
	require.Equal(t, "usage: ticket [serve|migrate [--fast]|check|version]\n", problems.String())
	t.Setenv("LIFECYCLE_TEST_THRESHOLD", "abc")
	code, _, _ = call("outbox", "parked")
	require.Equal(t, 2, code)
	free := Command[serviceConfig]{Usage: "plan", Unconfigured: true, Run: func(_ context.Context, c *serviceConfig, _ []string, out io.Writer) error {
		_, err := fmt.Fprintln(out, c == nil)
		return err
	}}
	out.Reset()
	require.Zero(t, runCommand(t.Context(), "gateway", []string{"plan"}, &out, &problems, nil, nil, free))
	require.Equal(t, "true\n", out.String())
}

func TestMigrateRunsInsteadOfServe(t *testing.T) {
	var out bytes.Buffer
	migrated := false
	code := runCommand(t.Context(), "ticket", []string{"migrate"}, &out, &out,
		func(context.Context, *serviceConfig, *slog.Logger) error { return errors.New("served") },
		func(context.Context, *serviceConfig, *slog.Logger) error { migrated = true; return nil })
	require.Zero(t, code, out.String())
	require.True(t, migrated)
}

// A migration that is stopped halfway must not look finished.
func TestInterruptedMigrationFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	interrupted := func(ctx context.Context, _ *serviceConfig, _ *slog.Logger) error { return ctx.Err() }
	var out bytes.Buffer
	require.Equal(t, 1, runCommand(ctx, "ticket", []string{"migrate"}, &out, &out, interrupted, interrupted))
	require.Zero(t, runCommand(ctx, "ticket", []string{"serve"}, &out, &out, interrupted, interrupted), "stopped while it started")
}

// TestMain provides a child process: a service whose shutdown hangs.
func TestMain(m *testing.M) {
	if err := os.Setenv("RPC_PLAIN", "development"); err != nil {
		panic(err)
	}
	processtest.Main(processtest.WithLeakCheck(m), func() int {
		return Main("ticket", func(ctx context.Context, _ *serviceConfig, _ *slog.Logger) error {
			fmt.Println("has started")
			<-ctx.Done()
			fmt.Println("was told to stop")
			select {}
		}, nil)
	})
}

// The first SIGTERM begins the shutdown, the second ends the process, so that an operator need not
// wait for a hanging shutdown.
func TestSecondSignalEndsProcess(t *testing.T) {
	p := processtest.Start(t, nil)
	prints := func(want string) {
		t.Helper()
		testkit.Until(t, func() bool { return strings.Contains(p.Output(), want) }, want)
	}
	prints("has started")
	p.Signal(syscall.SIGTERM)
	prints("was told to stop")
	testkit.Until(t, func() bool { // the handler of the first signal may still catch one
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.Ended():
			return true
		default:
			return false
		}
	}, "the end of the process")
	var exit *exec.ExitError
	require.ErrorAs(t, p.Wait(), &exit)
	st, ok := exit.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGTERM, st.Signal())
}

func TestConfigMustBeEmbedded(t *testing.T) {
	var out bytes.Buffer
	type bare struct{}
	code := runCommand(t.Context(), "ticket", nil, &out, &out, func(context.Context, *bare, *slog.Logger) error { return nil }, nil)
	require.Equal(t, 2, code)
	require.Contains(t, out.String(), "does not embed lifecycle.Config")
}
