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

// flushTimeout is the time limit of the last export of traces and metrics, so that an unavailable
// collector does not use up the shutdown time.
const flushTimeout = 3 * time.Second

// App holds the servers, workers and closing functions of a process; Run runs them. All methods but
// Run are called before Run, by one goroutine.
type App struct {
	name string
	cfg  Config
	log  *slog.Logger

	servers     []*task
	workers     []*task
	closers     []closer
	grpc        []*rpc.Server
	identity    *rpc.Identity  // of calls in both directions
	listenFuncs []func() error // bind the addresses before anything starts
	ready       *readiness
	draining    atomic.Bool // set when the context of Run ends
	failed      chan error  // the first failure of a task
}

type closer struct {
	name string
	fn   func(context.Context) error
}

// task is a goroutine that the App starts and stops: a server or a worker.
type task struct {
	name   string
	run    func(ctx context.Context) error
	stop   func(ctx context.Context) error // nil: cancelling the context is enough
	cancel context.CancelFunc
	done   chan struct{}
}

// Start makes the App of a service, reads its certificate and sets up its traces and metrics.
func Start(ctx context.Context, name string, cfg Config, log *slog.Logger) (a *App, err error) {
	a = New(name, cfg, log)
	if a.identity, err = rpc.NewIdentity(name, cfg.TLS); err != nil {
		return nil, err
	}
	return a, a.setUpTelemetry(ctx)
}

// New makes an App without servers, workers and certificate.
func New(name string, cfg Config, log *slog.Logger) *App {
	return &App{name: name, cfg: cfg, log: log, ready: newReadiness(log), failed: make(chan error, 1)}
}

func (a *App) Name() string      { return a.name }
func (a *App) Log() *slog.Logger { return a.log }

// setUpTelemetry starts the export of traces and metrics. It runs first, so that the export is
// closed last.
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

// Listen binds a host:port at once, so that an address in use fails the start.
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
	conn, err := rpc.Dial(a.name, callee, peer, append(opts, rpc.WithIdentity(a.identity))...)
	if err != nil {
		return nil, err
	}
	a.OnClose(callee, func(context.Context) error { return conn.Close() })
	return conn, nil
}

// GRPC makes the gRPC server that Run serves on GRPC_ADDR. Services must be registered before Run.
// Its health service reports whether the conditions of the App hold.
func (a *App) GRPC(cfg rpc.ServerConfig) (*rpc.Server, error) {
	s, err := rpc.NewServer(a.name, cfg, a.log, rpc.ServeAs(a.identity))
	if err != nil {
		return nil, err
	}
	a.serveGRPC(s)
	return s, nil
}

func (a *App) serveGRPC(s *rpc.Server) {
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
	a.listenFuncs = append(a.listenFuncs, func() (err error) {
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

// closeConnsWhileDraining asks clients to close their connections while the process drains.
// Otherwise a kept-alive connection stays with this process after load balancers have removed it,
// and a request sent while it closes fails.
func (a *App) closeConnsWhileDraining(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Go adds a background worker, which Run starts. At shutdown its context is cancelled after the
// servers have stopped; fn must then return. If fn returns an error before that, or panics, the
// process stops. It may return nil early when its work is done.
func (a *App) Go(name string, fn func(ctx context.Context) error) {
	a.workers = append(a.workers, &task{name: name, run: fn})
}

// OnClose adds a function to call after servers and workers have ended, the last one added first.
// It may take what is left of ShutdownTimeout, at least an eighth, and is then abandoned.
func (a *App) OnClose(name string, fn func(context.Context) error) {
	a.closers = append(a.closers, closer{name: name, fn: fn})
}

// Ready adds a condition for readiness. It is checked every second, within at most one second, and
// never during a request. A check that takes longer counts as failed, and is not called again
// before it has returned.
//
// The process is ready from the moment when all conditions have held once until it stops: only then
// may callers and load balancers find it. When a condition fails later, the process stays ready,
// but gRPC health is NOT_SERVING, so that callers prefer other replicas. If the process became
// unready instead, the loss of a store would remove the addresses of all replicas at once, and
// callers would need longer to find them again than the loss lasted.
func (a *App) Ready(name string, condition func(context.Context) error) {
	a.ready.addCheck(name, condition)
}

// Run starts everything and returns when all has ended: nil after the end of ctx, otherwise the
// error that stopped the process. At shutdown it reports not ready and NOT_SERVING, drains, then
// ends servers, workers and closing functions, each in reverse order of registration.
func (a *App) Run(ctx context.Context) error {
	// Tasks do not end with ctx: shutdown cancels their contexts one by one.
	base := context.WithoutCancel(ctx)
	for _, bind := range a.listenFuncs {
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

// drain continues to serve for a while, so that load balancers can remove this process. A failed
// task ends the drain early.
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
