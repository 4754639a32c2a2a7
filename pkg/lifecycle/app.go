package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"urr.guru/pkg/rpc"
	"urr.guru/pkg/telemetry/otlp"
)

// flushTimeout bounds the last export, so that an unavailable collector does not use up the
// shutdown time.
const flushTimeout = 3 * time.Second

// App collects the parts of a process; Run runs them. All methods but Run are called during wiring,
// by one goroutine.
type App struct {
	name string
	cfg  Config
	log  *slog.Logger

	servers  []*task
	workers  []*task
	closers  []closer
	grpc     []*rpc.Server
	binds    []func() error // listeners bound before anything starts
	ready    *readiness
	draining atomic.Bool // set when the context ends
	failed   chan error  // the first failure of a task
}

type closer struct {
	name string
	fn   func(context.Context) error
}

// task is one owned goroutine.
type task struct {
	name   string
	run    func(ctx context.Context) error
	stop   func(ctx context.Context) error // nil: cancelling the context is enough
	cancel context.CancelFunc
	done   chan struct{}
}

// Start makes the App of a service and sets up its traces and metrics.
func Start(ctx context.Context, name string, cfg Config, log *slog.Logger) (*App, error) {
	a := New(name, cfg, log)
	return a, a.setUpTelemetry(ctx)
}

// New makes an empty App.
func New(name string, cfg Config, log *slog.Logger) *App {
	return &App{name: name, cfg: cfg, log: log, ready: newReadiness(log), failed: make(chan error, 1)}
}

func (a *App) Name() string      { return a.name }
func (a *App) Log() *slog.Logger { return a.log }

// setUpTelemetry sets up traces and metrics before anything else, so that they are closed last.
func (a *App) setUpTelemetry(ctx context.Context) error {
	flush, err := otlp.Setup(ctx, a.name, a.cfg.OTLPEndpoint, a.log)
	if err != nil {
		return err
	}
	a.OnClose("telemetry", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := flush(ctx); err != nil { // a failed export does not fail a clean stop
			a.log.Warn("telemetry not flushed", "error", err.Error())
		}
		return nil
	})
	return nil
}

// Listen binds addr (host:port) immediately, so that a taken port fails the start.
func (a *App) Listen(name, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, fmt.Errorf("%s: no address to listen on", name)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func (a *App) Dial(callee string, peer rpc.Peer, opts ...rpc.DialOption) (*rpc.Conn, error) {
	conn, err := rpc.Dial(a.name, callee, peer, opts...)
	if err != nil {
		return nil, err
	}
	a.OnClose(callee, func(context.Context) error { return conn.Close() })
	return conn, nil
}

// GRPC makes the server that Run serves on GRPC_ADDR; register services before Run. Its health
// service follows the conditions of the App.
func (a *App) GRPC(cfg rpc.ServerConfig) (*rpc.Server, error) {
	s, err := rpc.NewServer(a.name, cfg, a.log)
	if err != nil {
		return nil, err
	}
	a.serve(s)
	return s, nil
}

func (a *App) serve(s *rpc.Server) {
	a.grpc = append(a.grpc, s)
	var l net.Listener
	a.servers = append(a.servers, &task{
		name: "grpc",
		run: func(context.Context) error {
			a.log.Info("serving", "server", "grpc", "addr", l.Addr().String())
			return s.Serve(l)
		},
		stop: s.Stop,
	})
	a.binds = append(a.binds, func() (err error) {
		if err := s.Check(); err != nil {
			return err
		}
		l, err = a.Listen("GRPC_ADDR", a.cfg.GRPCAddr)
		return err
	})
}

// ServeHTTP serves srv on l. Timeouts that are not set get safe defaults. While the process drains,
// each response asks its client to close the connection. At shutdown running requests may finish;
// requests that never finish (event streams) must watch http.Server.RegisterOnShutdown.
func (a *App) ServeHTTP(name string, l net.Listener, srv *http.Server) {
	if srv.ReadHeaderTimeout == 0 {
		srv.ReadHeaderTimeout = 5 * time.Second
	}
	if srv.IdleTimeout == 0 {
		srv.IdleTimeout = 2 * time.Minute
	}
	if srv.ErrorLog == nil {
		srv.ErrorLog = slog.NewLogLogger(a.log.Handler(), slog.LevelWarn)
	}
	if srv.Handler == nil {
		srv.Handler = http.DefaultServeMux
	}
	srv.Handler = a.closeConnsWhileDraining(srv.Handler)
	a.servers = append(a.servers, &task{
		name: name,
		run: func(context.Context) error {
			a.log.Info("serving", "server", name, "addr", l.Addr().String())
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
		stop: func(ctx context.Context) error {
			if err := srv.Shutdown(ctx); err != nil {
				return errors.Join(err, srv.Close())
			}
			return nil
		},
	})
}

// closeConnsWhileDraining asks clients to close their connections. A kept-alive connection stays
// with this process after load balancers have removed it, and a request sent while it closes would
// fail.
func (a *App) closeConnsWhileDraining(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Go runs a background worker. At shutdown its context is cancelled in its turn, after the servers;
// fn must then return. An error returned before that, or a panic, stops the process. Returning nil
// early means that its work is done.
func (a *App) Go(name string, fn func(ctx context.Context) error) {
	a.workers = append(a.workers, &task{name: name, run: fn})
}

// OnClose registers a function that is called after servers and workers have ended, in reverse
// order of registration. It has what is left of ShutdownTimeout, at least an eighth; then it is
// abandoned.
func (a *App) OnClose(name string, fn func(context.Context) error) {
	a.closers = append(a.closers, closer{name: name, fn: fn})
}

// Ready adds a condition. It is checked every second, with a timeout of one second, never within a
// request. A check that exceeds its timeout counts as failed and is not called again before it has
// returned.
//
// The process is ready from the moment when all conditions held once until it stops: only then
// callers and load balancers may find it. While a condition fails later, the process stays ready and
// gRPC health is NOT_SERVING, so that callers prefer other replicas. If the process became unready
// instead, the loss of a store would remove the addresses of all replicas at once, and callers would
// need longer to find them again than the loss lasted.
func (a *App) Ready(name string, check func(context.Context) error) {
	a.ready.addCheck(name, check)
}

// Run starts everything and returns when all has ended: nil after the end of ctx, the failure
// otherwise. Shutdown order: not ready and NOT_SERVING, drain, servers, workers, closers; each
// group in reverse order of registration.
func (a *App) Run(ctx context.Context) error {
	// Shutdown uses its own contexts: those of the tasks are cancelled one by one, not with ctx.
	base := context.WithoutCancel(ctx)
	for _, bind := range a.binds {
		if err := bind(); err != nil {
			return errors.Join(err, a.shutdown(base))
		}
	}
	stopOps, err := a.startOps()
	if err != nil {
		return errors.Join(err, a.shutdown(base))
	}
	for _, t := range slices.Concat(a.workers, a.servers) {
		a.startTask(base, t)
	}
	a.ready.start(base, a.setHealth)

	var failure error
	select {
	case <-ctx.Done():
		a.log.Info("stopping", "drain", a.cfg.Drain.String())
	case failure = <-a.failed:
		a.log.Error("stopping after a failure", "error", failure.Error())
	}
	a.draining.Store(true)
	a.ready.stop()
	if failure == nil {
		failure = a.drain()
	}
	failure = errors.Join(failure, a.shutdown(base), stopOps())
	a.log.Info("stopped")
	return failure
}

func (a *App) startTask(base context.Context, t *task) {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(base)
	t.done = make(chan struct{})
	go func() {
		defer close(t.done)
		err := recoverPanics(ctx, t.run)
		if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return
		}
		select {
		case a.failed <- fmt.Errorf("%s: %w", t.name, err):
		default: // another failure is already stopping the process
			a.log.Error("task failed", "task", t.name, "error", err.Error())
		}
	}()
}

func recoverPanics(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx)
}

func (a *App) setHealth(h health) {
	for _, s := range a.grpc {
		s.SetServing(h.serving)
		s.SetReady(h.ready)
	}
}

// drain keeps serving for a while, so that load balancers notice that this process is leaving. A
// failure ends it early.
func (a *App) drain() error {
	t := time.NewTimer(a.cfg.Drain)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case err := <-a.failed:
		a.log.Error("failed while draining", "error", err.Error())
		return err
	}
}
