package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/testkit"
)

func newApp(cfg lifecycle.Config) *lifecycle.App {
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = time.Hour
	}
	a := lifecycle.New("test", cfg, slog.New(slog.DiscardHandler))
	a.CheckOften(time.Hour)
	return a
}

// run starts the app. It returns a function that stops it, and one that waits for its result.
func run(t *testing.T, a *lifecycle.App) (stop context.CancelFunc, wait func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return cancel, func() error { return <-done }
}

func status(t *testing.T, url string) (int, map[string]any) {
	t.Helper()
	code, body := get(t, url)
	m := make(map[string]any)
	_ = json.Unmarshal(body, &m)
	return code, m
}

func page(t *testing.T, url string) string {
	t.Helper()
	_, body := get(t, url)
	return string(body)
}

// get requests url. It returns status 0 while nothing listens there.
func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, b
}

// keepDraining makes the app drain after it is stopped until the returned function is called; the
// app then ends with errEndDrain.
func keepDraining(a *lifecycle.App) (end func()) {
	seen := make(chan struct{})
	a.Go("drain", func(ctx context.Context) error {
		select {
		case <-seen:
			return errEndDrain
		case <-ctx.Done():
			return nil
		}
	})
	return func() { close(seen) }
}

var errEndDrain = errors.New("the test ends the drain")

// callLog records calls in order.
type callLog struct {
	mu  sync.Mutex
	did []string
}

func (j *callLog) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did = append(j.did, s)
}

func (j *callLog) worker(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		j.add(name)
		return ctx.Err()
	}
}

func (j *callLog) closer(name string) func(context.Context) error {
	return func(context.Context) error {
		j.add(name)
		return nil
	}
}

func TestShutdownOrder(t *testing.T) {
	t.Parallel()
	var j callLog
	a := newApp(lifecycle.Config{})
	a.OnClose("telemetry", j.closer("telemetry"))
	a.OnClose("pool", j.closer("pool"))
	a.Go("relay", j.worker("relay"))
	l, err := a.Listen("http", "127.0.0.1:0")
	require.NoError(t, err)
	a.ServeHTTP("http", l, &http.Server{Handler: http.NotFoundHandler()})
	a.Go("consumer", func(ctx context.Context) error {
		<-ctx.Done()
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			return errors.Join(errors.New("the server still listens"), conn.Close())
		}
		j.add("consumer")
		return nil
	})
	a.Go("done early", func(context.Context) error { return nil })
	started := make(chan struct{})
	a.Ready("started", func(context.Context) error {
		select {
		case <-started:
		default:
			close(started)
		}
		return nil
	})
	stop, wait := run(t, a)
	<-started
	stop()
	require.NoError(t, wait())
	require.Equal(t, []string{"consumer", "relay", "pool", "telemetry"}, j.did)
}

func TestTaskFailureStopsProcess(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		worker func(context.Context) error
		closer func(context.Context) error
		want   string
	}{
		"worker":          {worker: func(context.Context) error { return boom }, want: "worker: boom"},
		"panic":           {worker: func(context.Context) error { panic("at night") }, want: "worker: panic: at night"},
		"canceled itself": {worker: func(context.Context) error { return context.Canceled }, want: "worker: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := false
			a := newApp(lifecycle.Config{Drain: time.Hour}) // no drain after a failure
			a.OnClose("pool", func(context.Context) error { closed = true; return nil })
			a.Go("worker", tc.worker)
			a.Go("other", func(ctx context.Context) error { <-ctx.Done(); return nil })
			_, wait := run(t, a)
			require.ErrorContains(t, wait(), tc.want)
			require.True(t, closed)
		})
	}
}

func TestShutdownReportsFailures(t *testing.T) {
	t.Parallel()
	a := newApp(lifecycle.Config{})
	a.Go("worker", func(ctx context.Context) error { <-ctx.Done(); return errors.New("offsets not committed") })
	a.OnClose("pool", func(context.Context) error { return errors.New("connections leaked") })
	stop, wait := run(t, a)
	stop()
	err := wait()
	require.ErrorContains(t, err, "offsets not committed")
	require.ErrorContains(t, err, "close pool: connections leaked")
}

// Profiles reveal memory contents and cost CPU: they are served only when enabled.
func TestProfilesAreOffByDefault(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		addr := backendtest.FreeAddr(t)
		a := newApp(lifecycle.Config{OpsAddr: addr, Pprof: on})
		stop, wait := run(t, a)
		testkit.Until(t, func() bool { code, _ := status(t, "http://"+addr+"/healthz"); return code == 200 }, "alive")
		want := map[bool]int{false: 404, true: 200}[on]
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1"} {
			code, _ := status(t, "http://"+addr+path)
			require.Equal(t, want, code, "%s, on: %v", path, on)
		}
		stop()
		require.NoError(t, wait())
	}
}

func TestConnectionsAreClosedWhileDraining(t *testing.T) {
	t.Parallel()
	a := newApp(lifecycle.Config{Drain: time.Hour})
	end := keepDraining(a)
	l, err := a.Listen("http", "127.0.0.1:0")
	require.NoError(t, err)
	a.ServeHTTP("http", l, &http.Server{Handler: http.NotFoundHandler()})
	stop, wait := run(t, a)
	client := &http.Client{Transport: &http.Transport{}}
	closes := func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err, "no request may fail while the process drains")
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.Close
	}
	require.False(t, closes())
	stop()
	testkit.Until(t, closes, "connections are closed")
	client.CloseIdleConnections()
	end()
	require.ErrorIs(t, wait(), errEndDrain)
}

func TestTakenPortFailsStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for name, cfg := range map[string]lifecycle.Config{"ops": {OpsAddr: l.Addr().String()}, "grpc": {GRPCAddr: l.Addr().String()}, "none": {}} {
		a := newApp(cfg)
		closed := false
		a.OnClose("pool", func(context.Context) error { closed = true; return nil })
		if name != "ops" {
			_, err := a.GRPC(rpc.ServerConfig{})
			require.NoError(t, err)
		}
		require.Error(t, a.Run(t.Context()), name)
		require.True(t, closed, name)
	}
}
