package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

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

func TestConfigMustBeEmbedded(t *testing.T) {
	var out bytes.Buffer
	type bare struct{}
	code := command(t.Context(), "ticket", nil, &out, &out, func(context.Context, *bare, *slog.Logger) error { return nil }, nil)
	require.Equal(t, 2, code)
	require.Contains(t, out.String(), "does not embed lifecycle.Config")
}
