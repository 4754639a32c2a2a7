package runner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/testkit"
	"urr.guru/scripts/backends"
	"urr.guru/scripts/platform"
	"urr.guru/scripts/process"
)

// In these tests, the services are this test binary: it then only serves the service's ops port.
func TestMain(m *testing.M) {
	if os.Getenv("LOG_LEVEL") != "a service of a test" {
		os.Exit(m.Run())
	}
	if os.Args[len(os.Args)-1] == "check" {
		if os.Getenv("QUEUE_THRESHOLD") == "none" {
			fmt.Fprintln(os.Stderr, `config: QUEUE_THRESHOLD="none": must be a whole number`)
			os.Exit(2)
		}
		os.Exit(0)
	}
	ready := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	server := &http.Server{Addr: os.Getenv("OPS_ADDR"), Handler: http.HandlerFunc(ready), ReadHeaderTimeout: time.Second}
	_ = server.ListenAndServe()
	os.Exit(3)
}

// setup creates a checkout with two services; the queue service needs the ticket service.
func setup(t *testing.T) *Runner {
	t.Helper()
	t.Setenv("LOG_LEVEL", "a service of a test")
	layout := platform.Layout{Root: t.TempDir()}
	exe, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(layout.State("bin"), 0o755))
	var services []platform.Service
	for _, name := range []string{platform.Ticket, platform.Queue} {
		s, err := platform.Lookup(name)
		require.NoError(t, err)
		s.Port = backendtest.FreePort(t)
		s.OpsPort = s.Port
		services = append(services, s)
		copyFile(t, exe, layout.ProgramFile(name))
	}
	return &Runner{
		layout: layout, services: services, secrets: platform.NewSecrets(), say: t.Logf,
		after: func(time.Duration) <-chan time.Time { return time.After(0) },
	}
}

func copyFile(t *testing.T, source, target string) {
	t.Helper()
	src, err := os.Open(source)
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	dst, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(dst, src)
	require.NoError(t, err)
	require.NoError(t, dst.Close())
}

// supervise runs the supervisor; the returned function stops it and waits.
func supervise(t *testing.T, r *Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Supervise(ctx, slog.New(slog.DiscardHandler)) }()
	stop = func() {
		cancel()
		require.NoError(t, <-done)
	}
	t.Cleanup(cancel)
	return stop
}

func TestSupervisorRestartsAndStopsServices(t *testing.T) {
	r := setup(t)
	stop := supervise(t, r)
	for _, s := range r.services {
		require.NoError(t, r.awaitReady(t.Context(), s))
	}
	supervisor, found, err := r.loadRecord(supervisorName)
	require.NoError(t, err)
	require.True(t, found, "it says itself that it runs: who started it may be gone")
	require.Equal(t, os.Getpid(), supervisor.PID)
	before, _, err := r.loadRecord(platform.Queue)
	require.NoError(t, err)
	require.NoError(t, before.Signal(syscall.SIGKILL))

	var after runRecord
	testkit.Until(t, func() bool {
		after, _, err = r.loadRecord(platform.Queue)
		return err == nil && after.Restarts == 1 && after.Alive()
	}, "queue is started again")
	require.Equal(t, "signal: killed", after.LastExit)
	require.NotEqual(t, before.PID, after.PID)
	ticket, _, err := r.loadRecord(platform.Ticket)
	require.NoError(t, err)
	require.Zero(t, ticket.Restarts)

	stop()
	require.False(t, after.Alive())
	require.False(t, ticket.Alive())
	leftovers, err := filepath.Glob(r.layout.State("run", "*.json"))
	require.NoError(t, err)
	require.Empty(t, leftovers)
}

func TestSecondSupervisorOfACheckoutFails(t *testing.T) {
	r := setup(t)
	stop := supervise(t, r)
	require.NoError(t, r.awaitReady(t.Context(), r.services[0]))
	require.ErrorContains(t, r.Supervise(t.Context(), slog.New(slog.DiscardHandler)), "another supervisor")
	stop()
	supervise(t, r)()
}

func TestDownStopsWhatAKilledSupervisorLeftBehind(t *testing.T) {
	r := setup(t)
	ticket := r.services[0]
	p, err := process.Start(process.Spec{
		Name: ticket.Name, Path: r.layout.ProgramFile(ticket.Name), Env: r.env(ticket), Dir: r.layout.Root, Log: r.layout.LogFile(ticket.Name),
	})
	require.NoError(t, err)
	require.NoError(t, process.Save(r.layout.RunFile(ticket.Name), runRecord{Identity: p.Identity}))
	require.NoError(t, process.Save(r.layout.RunFile(supervisorName), runRecord{}))
	require.NoError(t, r.awaitReady(t.Context(), ticket))

	require.NoError(t, r.Down(t.Context()))
	require.False(t, p.Alive())
	require.NoError(t, process.CheckPort(ticket.Port))
}

func TestUpFailsWithTheLogOfACrashingService(t *testing.T) {
	r := setup(t)
	require.NoError(t, os.WriteFile(r.layout.ProgramFile(platform.Ticket), []byte("#!/bin/sh\necho GRPC_ADDR is missing; exit 2\n"), 0o755))
	stop := supervise(t, r)
	defer stop()
	err := r.awaitReady(t.Context(), r.services[0])
	require.ErrorContains(t, err, "exit status 2")
	require.ErrorContains(t, err, "GRPC_ADDR is missing")
}

func TestStatusShowsBackendsThatThePlatformNeeds(t *testing.T) {
	r := setup(t)
	var table bytes.Buffer
	require.NoError(t, r.Status(t.Context(), &table))
	for _, name := range []string{"ticket", "queue", "redis", "postgres", "kafka", "dynamodb", "sqs"} {
		require.Regexp(t, `(?m)^`+name+` +- .* no `, table.String())
	}
	require.NotContains(t, table.String(), "redis-cluster", "only tests use it")
	require.NotContains(t, table.String(), "supervisor does not run", "nothing runs that it could restart")
}

func TestStatusShowsRestartsOfBackends(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 14, 3, 12, 0, time.UTC)
	died := backends.BackendState{Name: "redis", Port: 16379, Started: at, Died: true, Restarts: 2, LastExit: "signal: killed", DataBytes: 12_000_001}
	require.Equal(t, "redis\t-\t16379\trestarting\t-\t13 MB\t2, last at 14:03:12\tsignal: killed", backendRow(died, true))
	require.Contains(t, backendRow(died, false), "\tno\t", "nobody restarts it")
	revived := died
	revived.Died, revived.PID, revived.Ready = false, 7, true
	require.Regexp(t, `^redis\t7\t16379\tyes\t[0-9hms]+\t13 MB\t2, last at 14:03:12\t`, backendRow(revived, true))
	require.Equal(t, "sqs\t-\t19324\tno\t-\t0 MB\t0\t", backendRow(backends.BackendState{Name: "sqs", Port: 19324}, true), "it was stopped")
}

func TestFingerprintFollowsProgramAndSettings(t *testing.T) {
	r := setup(t)
	first, err := r.fingerprint(r.services[0])
	require.NoError(t, err)
	t.Setenv("HOLD_SECONDS", "60")
	second, err := r.fingerprint(r.services[0])
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	t.Setenv("UNRELATED", "x")
	third, err := r.fingerprint(r.services[0])
	require.NoError(t, err)
	require.Equal(t, second, third)
}
