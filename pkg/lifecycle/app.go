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
	"urr.guru/pkg/telemetry"
)

// flushTimeout bounds the last export: a collector that is gone must not use up the shutdown's
// time.
const flushTimeout = 3 * time.Second

// App collects what a process consists of; Run runs it. Its methods but Run are called while
// wiring, by one goroutine.
type App struct {
	name string
	cfg  Config
	log  *slog.Logger

	servers []*task
	workers []*task
	closers []closer
	grpc    []*rpc.Server
	binds   []func() error // listeners bound before anything starts
	ready   *readiness
	leaving atomic.Bool // from the end of the context on
	failed  chan error  // the first failure of a task
}

type closer struct {
	name string
	fn   func(context.Context) error
}

// task is one owned goroutine.
type task struct {
	name   string
	run    func(ctx context.Context) error
	stop   func(ctx context.Context) error // nil: ending the context is enough
	cancel context.CancelFunc
	done   chan struct{}
}

// Start makes the App of a service, with its traces and metrics.
func Start(ctx context.Context, name string, cfg Config, log *slog.Logger) (*App, error) {
	a := New(name, cfg, log)
	return a, a.telemetry(ctx)
}

// New makes an empty App.
func New(name string, cfg Config, log *slog.Logger) *App {
	return &App{name: name, cfg: cfg, log: log, ready: newReadiness(log), failed: make(chan error, 1)}
}

// Name is the service's in logs, metrics and calls.
func (a *App) Name() string { return a.name }

// Log is where the service's parts log.
func (a *App) Log() *slog.Logger { return a.log }

// telemetry sets up traces and metrics before anything else, so that it is the last to close.
func (a *App) telemetry(ctx context.Context) error {
	flush, err := telemetry.Setup(ctx, a.name, a.cfg.OTLPEndpoint, a.log)
	if err != nil {
		return err
	}
	a.OnClose("telemetry", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushTimeout)
		defer cancel()
		if err := flush(ctx); err != nil { // nor turn a clean stop into a failure
			a.log.Warn("telemetry not flushed", "error", err.Error())
		}
		return nil
	})
	return nil
}

// Listen binds addr (host:port) at once, so that a taken port stops the start.
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

// Dial makes a connection to another service, closed with this one.
func (a *App) Dial(callee string, peer rpc.Peer, opts ...rpc.DialOption) (*rpc.Conn, error) {
	conn, err := rpc.Dial(a.name, callee, peer, opts...)
	if err != nil {
		return nil, err
	}
	a.OnClose(callee, func(context.Context) error { return conn.Close() })
	return conn, nil
}

// GRPC makes the server that Run serves on GRPC_ADDR; services are registered until then. Its
// health service follows the readiness of the App.
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

// ServeHTTP serves srv on l. Time-outs that are not set get safe values. While the process drains,
// each answer asks its client to close the connection. At shutdown running requests may end; what
// never ends by itself (event streams) must watch http.Server.RegisterOnShutdown.
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
	srv.Handler = a.partWhenLeaving(srv.Handler)
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

// partWhenLeaving keeps requests from meeting the end of a connection that they were sent on: a
// kept-alive one stays with this process after load balancers have taken it out, until its client
// is told.
func (a *App) partWhenLeaving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Go owns a background worker. Its context ends in its turn at shutdown, after the servers; fn
// should then return. An error that it returns before, or a panic, stops the process. Returning nil
// early is fine: its work is done.
func (a *App) Go(name string, fn func(ctx context.Context) error) {
	a.workers = append(a.workers, &task{name: name, run: fn})
}

// OnClose is called after servers and workers have ended; last registered, first called. It may
// take what is left of ShutdownTimeout, at least an eighth; then it is left behind.
func (a *App) OnClose(name string, fn func(context.Context) error) {
	a.closers = append(a.closers, closer{name: name, fn: fn})
}

// Ready adds a condition for /readyz and gRPC health. It is asked every second, with a second's
// time, never by a request. One that does not end when its time is up counts as failed and is not
// asked again before it has ended.
func (a *App) Ready(name string, check func(context.Context) error) {
	a.ready.add(name, check)
}

// Run starts everything and returns when it has ended: nil after the context's end, the failure
// otherwise. Then, in this order: not ready and NOT_SERVING, the drain, servers, workers, closers;
// each group in the reverse order of its registration.
func (a *App) Run(ctx context.Context) error {
	// Shutdown has contexts of its own: those of the tasks end one by one, not with ctx.
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
		a.start(base, t)
	}
	a.ready.start(base, a.setServing)

	var failure error
	select {
	case <-ctx.Done():
		a.log.Info("stopping", "drain", a.cfg.Drain.String())
	case failure = <-a.failed:
		a.log.Error("stopping after a failure", "error", failure.Error())
	}
	a.leaving.Store(true)
	a.ready.stop()
	if failure == nil {
		failure = a.drain()
	}
	failure = errors.Join(failure, a.shutdown(base), stopOps())
	a.log.Info("stopped")
	return failure
}

func (a *App) start(base context.Context, t *task) {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(base)
	t.done = make(chan struct{})
	go func() {
		defer close(t.done)
		err := guarded(ctx, t.run)
		if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return
		}
		select {
		case a.failed <- fmt.Errorf("%s: %w", t.name, err):
		default: // another failure stops the process already
			a.log.Error("task failed", "task", t.name, "error", err.Error())
		}
	}()
}

// guarded turns a panic of fn into its error.
func guarded(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx)
}

func (a *App) setServing(ok bool) {
	for _, s := range a.grpc {
		s.SetServing(ok)
	}
}

// drain serves on for a while: whoever balances the load needs time to see that this process is
// leaving. A failure ends it early.
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
