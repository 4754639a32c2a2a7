// Package rpc connects services by gRPC, with signed callers, validated requests, deadlines,
// retries of idempotent methods, and errors of package errs on both ends.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"urr.guru/pkg/config"
	"urr.guru/pkg/telemetry"
)

// maxMessage is the largest message that is sent or received, in bytes. The layout of a 50,000-seat
// venue is the largest that occurs, at about 3 MB.
const maxMessage = 16 << 20

// Flow-control windows, in bytes. By default grpc estimates them, and sends a ping for that with
// nearly every call; on a network between services the estimate saves nothing.
const (
	streamWindow = 1 << 20
	connWindow   = 4 << 20
)

// handlerWorkers is how many goroutines each server keeps for handlers, since the stack of a new
// goroutine grows in several steps. When all are busy, calls get goroutines of their own.
const handlerWorkers = 16

// Connections are closed at this age, so that clients behind one virtual address find new replicas.
// Streams on them end at the latest after the grace; then their watchers reconnect.
const (
	maxConnectionAge      = 5 * time.Minute
	maxConnectionAgeGrace = 30 * time.Second
)

// The names under which gRPC health reports a status. Clients watch servingHealth. readinessHealth
// is for probes by gRPC, in place of /readyz.
const (
	servingHealth   = ""
	readinessHealth = "readiness"
)

// untracedHealth leaves health checks out of traces: clients watch health all the time.
var untracedHealth = otelgrpc.WithFilter(filters.Not(filters.HealthCheck()))

// cutGrace is how long Stop waits for calls after their connections were cut.
const cutGrace = 100 * time.Millisecond

// ServerConfig says which services may call, and with which keys.
type ServerConfig struct {
	// Accept holds the keys of each pair caller → this service,
	// caller:key[|key…][,caller:key[|key…]…], at least 32 bytes each; all of them verify. Its file
	// may be a folder with a file per caller.
	Accept map[string]config.Secret `env:"RPC_ACCEPT"`
}

// Server is a gRPC server with health, reflection and all interceptors. Register services on it,
// then hand it to lifecycle.App.GRPC.
type Server struct {
	name     string
	grpc     *grpc.Server
	health   *health.Server
	verifier *verifier
	access   map[string][]string // full method → callers
	failures *failureLog
	identity *Identity
	problems []error

	// stopping is cancelled when Stop begins, which ends the streams.
	stopping context.Context //nolint:containedctx // the lifetime of the server, not of a request
	stop     context.CancelFunc
}

// ServerOption is an option of NewServer.
type ServerOption func(*Server)

// ServeAs accepts only TLS connections, and only calls of the service whose certificate the
// connection has.
func ServeAs(i *Identity) ServerOption { return func(s *Server) { s.identity = i } }

// NewServer makes the server of the named service. It fails when a key is too short. Calls are
// traced if telemetry was set up before.
func NewServer(name string, cfg ServerConfig, log *slog.Logger, options ...ServerOption) (*Server, error) {
	v, err := newVerifier(name, cfg.Accept)
	if err != nil {
		return nil, err
	}
	s := &Server{
		name: name, health: health.NewServer(), verifier: v,
		access: make(map[string][]string), failures: newFailureLog(log),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	for _, o := range options {
		o(s)
	}
	opts := []grpc.ServerOption{
		grpc.Creds(s.identity.transport("", s.refuseConnection)),
		grpc.ChainUnaryInterceptor(s.interceptUnary),
		grpc.ChainStreamInterceptor(s.interceptStream),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.NumStreamWorkers(handlerWorkers),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: maxConnectionAgeGrace,
			Time: keepaliveTime, Timeout: keepaliveTimeout,
		}),
	}
	if telemetry.Enabled() {
		opts = append(opts, grpc.StatsHandler(otelgrpc.NewServerHandler(untracedHealth)))
	}
	s.grpc = grpc.NewServer(opts...)
	s.SetServing(false)
	s.SetReady(false)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// RegisterService adds a service. Errors in the declaration of the service are reported by Check.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	methods, err := allowedCallers(desc)
	if err != nil {
		s.problems = append(s.problems, err)
		return
	}
	for method, callers := range methods {
		for _, c := range callers {
			if !s.verifier.knowsCaller(c) {
				s.problems = append(s.problems, fmt.Errorf("rpc: %s lets %q in, but RPC_ACCEPT has no key for it", method, c))
			}
		}
	}
	maps.Copy(s.access, methods)
	s.grpc.RegisterService(desc, impl)
}

// Rekey replaces the accepted keys, in the form of ServerConfig.Accept. If a key is too short, or
// missing for a caller that a method allows, it fails and changes nothing.
func (s *Server) Rekey(accept map[string]config.Secret) error {
	for method, callers := range s.access {
		for _, c := range callers {
			if _, ok := accept[c]; !ok {
				return fmt.Errorf("rpc: %s lets %q in, but RPC_ACCEPT has no key for it", method, c)
			}
		}
	}
	return s.verifier.rekey(accept)
}

func (s *Server) Name() string { return s.name }

// Check reports why the server cannot serve: a method does not declare who may call it (option
// urr.common.v1.access), or a caller that it declares has no key.
func (s *Server) Check() error { return errors.Join(s.problems...) }

// Serve serves calls on l until Stop. It fails at once if Check does.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Check(); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("rpc: serve: %w", err)
	}
	return nil
}

// SetServing tells clients whether this replica can do its work. They prefer replicas that can, and
// call one that cannot only if no other can.
func (s *Server) SetServing(ok bool) { s.setHealth(servingHealth, ok) }

// SetReady sets the status of "readiness", for probes: whether clients may find this replica.
func (s *Server) SetReady(ok bool) { s.setHealth(readinessHealth, ok) }

func (s *Server) setHealth(name string, ok bool) {
	st := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ok {
		st = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(name, st)
}

// Stop ends streams (their clients see UNAVAILABLE and reconnect to another replica) and waits for
// running calls until ctx ends; then it cuts them off and returns the error of ctx. A handler that
// ignores that too is abandoned.
func (s *Server) Stop(ctx context.Context) error {
	s.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		go s.grpc.Stop() // cuts the connections, which ends the contexts of their calls
		select {
		case <-done: // GracefulStop and Stop both wait for every handler
		case <-time.After(cutGrace):
		}
		return ctx.Err()
	}
}

func serviceName(fullMethod string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	return service
}
