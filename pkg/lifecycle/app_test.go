package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/waittest"
)

func newApp(cfg lifecycle.Config) *lifecycle.App {
	if cfg.ShutdownTimeout == 0 {
		cfg.ShutdownTimeout = time.Hour
	}
	a := lifecycle.New("test", cfg, slog.New(slog.DiscardHandler))
	a.CheckOften(time.Hour)
	return a
}

// run starts the app and returns how to stop it and what it returned.
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

// get returns 0 while nothing listens.
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

func TestProbesFollowChecks(t *testing.T) {
	t.Parallel()
	addr := backendtest.FreeAddr(t)
	var broken atomic.Bool
	broken.Store(true)
	a := newApp(lifecycle.Config{OpsAddr: addr, Drain: time.Hour})
	end := keepDraining(a)
	a.Ready("postgres", func(context.Context) error {
		if broken.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	a.Ready("redis", func(context.Context) error { return nil })
	stop, wait := run(t, a)

	ready := func(code int) func() bool {
		return func() bool { got, _ := status(t, "http://"+addr+"/readyz"); return got == code }
	}
	waittest.Until(t, ready(503), "readiness is 503")
	waittest.Until(t, func() bool {
		_, m := status(t, "http://"+addr+"/readyz")
		checks, _ := m["checks"].(map[string]any)
		return checks["postgres"] == "connection refused" && checks["redis"] == "ok"
	}, "the checks' answers")
	code, _ := status(t, "http://"+addr+"/healthz")
	require.Equal(t, 200, code, "alive is not ready")

	broken.Store(false)
	waittest.Until(t, ready(200), "readiness is 200")
	code, _ = status(t, "http://"+addr+"/metrics")
	require.Equal(t, 200, code)

	stop()
	waittest.Until(t, ready(503), "not ready while it drains")
	end()
	require.ErrorIs(t, wait(), errEndDrain)
}

// A store that goes away after the first success leaves the process ready: all replicas lose a
// common store at once, and without addresses callers would need long to come back.
func TestLostStoreLeavesProcessReady(t *testing.T) {
	t.Parallel()
	addr := backendtest.FreeAddr(t)
	var broken atomic.Bool
	a := newApp(lifecycle.Config{OpsAddr: addr})
	a.Ready("lost store", func(context.Context) error {
		if broken.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	stop, wait := run(t, a)
	answers := func(serving bool, check, metric string) func() bool {
		return func() bool {
			code, m := status(t, "http://"+addr+"/readyz")
			checks, _ := m["checks"].(map[string]any)
			return code == 200 && m["ready"] == true && m["serving"] == serving && checks["lost store"] == check &&
				strings.Contains(page(t, "http://"+addr+"/metrics"), `urr_ready{condition="lost store"} `+metric)
		}
	}
	waittest.Until(t, answers(true, "ok", "1"), "ready and serving")
	broken.Store(true)
	waittest.Until(t, answers(false, "connection refused", "0"), "ready, not serving")
	broken.Store(false)
	waittest.Until(t, answers(true, "ok", "1"), "serving again")
	stop()
	require.NoError(t, wait())
}

// Profiles reveal memory contents and cost CPU: they are served only when enabled.
func TestProfilesAreOffByDefault(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		addr := backendtest.FreeAddr(t)
		a := newApp(lifecycle.Config{OpsAddr: addr, Pprof: on})
		stop, wait := run(t, a)
		waittest.Until(t, func() bool { code, _ := status(t, "http://"+addr+"/healthz"); return code == 200 }, "alive")
		want := map[bool]int{false: 404, true: 200}[on]
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1"} {
			code, _ := status(t, "http://"+addr+path)
			require.Equal(t, want, code, "%s, on: %v", path, on)
		}
		stop()
		require.NoError(t, wait())
	}
}

func TestPanickingOrHangingCheckIsNotReady(t *testing.T) {
	t.Parallel()
	addr := backendtest.FreeAddr(t)
	a := newApp(lifecycle.Config{OpsAddr: addr})
	a.CheckOften(20 * time.Millisecond)
	a.Ready("panics", func(context.Context) error { panic("nil pool") })
	a.Ready("hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	stop, wait := run(t, a)
	waittest.Until(t, func() bool {
		code, m := status(t, "http://"+addr+"/readyz")
		checks, _ := m["checks"].(map[string]any)
		return code == 503 && checks["panics"] == "panic: nil pool" && checks["hangs"] == "context deadline exceeded"
	}, "the checks' answers")
	stop()
	require.NoError(t, wait())
}

// A check that ignores its context must neither keep its last good result nor keep the process from
// ending.
func TestCheckThatIgnoresItsContextIsNotServing(t *testing.T) {
	t.Parallel()
	addr := backendtest.FreeAddr(t)
	stuck, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	var hang atomic.Bool
	var asked atomic.Int32
	a := newApp(lifecycle.Config{OpsAddr: addr})
	a.CheckOften(20 * time.Millisecond)
	a.Ready("store", func(context.Context) error {
		if !hang.Load() {
			return nil
		}
		if asked.Add(1) == 1 {
			close(stuck)
		}
		<-release
		return nil
	})
	stop, wait := run(t, a)
	ready := func(code int) func() bool {
		return func() bool { got, _ := status(t, "http://"+addr+"/readyz"); return got == code }
	}
	waittest.Until(t, ready(200), "readiness is 200")
	hang.Store(true)
	<-stuck
	waittest.Until(t, func() bool {
		_, m := status(t, "http://"+addr+"/readyz")
		checks, _ := m["checks"].(map[string]any)
		return m["serving"] == false && checks["store"] == "has not ended since it was last asked"
	}, "the checks' answers")
	require.EqualValues(t, 1, asked.Load(), "goroutines must not pile up behind it")
	stop()
	require.NoError(t, wait())
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
	waittest.Until(t, closes, "connections are closed")
	client.CloseIdleConnections()
	end()
	require.ErrorIs(t, wait(), errEndDrain)
}

// Clients see the loss of a store; the probe of the pod sees the start and the stop only.
func TestGRPCHealthFollowsConditions(t *testing.T) {
	t.Parallel()
	addr := backendtest.FreeAddr(t)
	var broken atomic.Bool
	broken.Store(true)
	a := newApp(lifecycle.Config{GRPCAddr: addr, Drain: time.Hour})
	end := keepDraining(a)
	_, err := a.GRPC(rpc.ServerConfig{})
	require.NoError(t, err)
	checked := make(chan struct{}, 1)
	a.Ready("store", func(context.Context) error {
		select {
		case checked <- struct{}{}:
		default:
		}
		if broken.Load() {
			return errors.New("down")
		}
		return nil
	})
	stop, wait := run(t, a)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	const yes, no = grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	is := func(serving, ready grpc_health_v1.HealthCheckResponse_ServingStatus) func() bool {
		return func() bool {
			for name, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{"": serving, "readiness": ready} {
				r, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}, grpc.WaitForReady(true))
				if err != nil || r.GetStatus() != want {
					return false
				}
			}
			return true
		}
	}
	<-checked
	waittest.Until(t, is(no, no), "neither before the store answered once")
	broken.Store(false)
	waittest.Until(t, is(yes, yes), "ready and serving")
	broken.Store(true)
	waittest.Until(t, is(no, yes), "the loss of the store")
	broken.Store(false)
	waittest.Until(t, is(yes, yes), "the return of the store")
	stop()
	waittest.Until(t, is(no, no), "neither while it drains")
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
