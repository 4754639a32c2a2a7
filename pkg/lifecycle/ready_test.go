package lifecycle_test

import (
	"context"
	"errors"
	"strings"
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
	"urr.guru/pkg/testkit"
)

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
	testkit.Until(t, ready(503), "readiness is 503")
	testkit.Until(t, func() bool {
		_, m := status(t, "http://"+addr+"/readyz")
		checks, _ := m["checks"].(map[string]any)
		return checks["postgres"] == "connection refused" && checks["redis"] == "ok"
	}, "the checks' answers")
	code, _ := status(t, "http://"+addr+"/healthz")
	require.Equal(t, 200, code, "alive is not ready")

	broken.Store(false)
	testkit.Until(t, ready(200), "readiness is 200")
	code, _ = status(t, "http://"+addr+"/metrics")
	require.Equal(t, 200, code)

	stop()
	testkit.Until(t, ready(503), "not ready while it drains")
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
	testkit.Until(t, answers(true, "ok", "1"), "ready and serving")
	broken.Store(true)
	testkit.Until(t, answers(false, "connection refused", "0"), "ready, not serving")
	broken.Store(false)
	testkit.Until(t, answers(true, "ok", "1"), "serving again")
	stop()
	require.NoError(t, wait())
}

func TestPanickingOrHangingCheckIsNotReady(t *testing.T) {
	t.Parallel()
	addr := backendtest.FreeAddr(t)
	a := newApp(lifecycle.Config{OpsAddr: addr})
	a.CheckOften(20 * time.Millisecond)
	a.Ready("panics", func(context.Context) error { panic("nil pool") })
	a.Ready("hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	stop, wait := run(t, a)
	testkit.Until(t, func() bool {
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
	testkit.Until(t, ready(200), "readiness is 200")
	hang.Store(true)
	<-stuck
	testkit.Until(t, func() bool {
		_, m := status(t, "http://"+addr+"/readyz")
		checks, _ := m["checks"].(map[string]any)
		return m["serving"] == false && checks["store"] == "has not ended since it was last asked"
	}, "the checks' answers")
	require.EqualValues(t, 1, asked.Load(), "goroutines must not pile up behind it")
	stop()
	require.NoError(t, wait())
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
	healthIs := func(serving, ready grpc_health_v1.HealthCheckResponse_ServingStatus) func() bool {
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
	testkit.Until(t, healthIs(no, no), "neither before the store answered once")
	broken.Store(false)
	testkit.Until(t, healthIs(yes, yes), "ready and serving")
	broken.Store(true)
	testkit.Until(t, healthIs(no, yes), "the loss of the store")
	broken.Store(false)
	testkit.Until(t, healthIs(yes, yes), "the return of the store")
	stop()
	testkit.Until(t, healthIs(no, no), "neither while it drains")
	end()
	require.ErrorIs(t, wait(), errEndDrain)
}
