package rpc

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/telemetry"
)

// CallTimeout is the deadline of a unary call whose context has none.
const CallTimeout = 3 * time.Second

const (
	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// Peer is another service: its address, and the key with which this service signs its calls to it.
// A Config has a Peer as a named field with `env:", prefix=TICKET_"`.
type Peer struct {
	// Addr is host:port, or dns:///host:port to balance calls over all addresses of the name.
	Addr string `env:"ADDR, required"`
	// Key is the key of the pair with that service, at least 32 bytes, or a set, key|key…: the
	// first signs.
	Key config.Secret `env:"RPC_KEY, required"`
}

// OptionalPeer is a Peer that need not be deployed.
type OptionalPeer struct {
	// Addr is host:port, or dns:///host:port to balance calls over all addresses of the name; empty:
	// the service is not deployed.
	Addr string `env:"ADDR"`
	// Key is the key of the pair with that service, required with its address: at least 32 bytes, or
	// a set, key|key…: the first signs.
	Key config.Secret `env:"RPC_KEY"`
}

type dialConfig struct {
	timeout  time.Duration
	breaker  *gobreaker.TwoStepCircuitBreaker[any]
	lookup   lookupFunc // nil means DNS
	identity *Identity
	extra    []grpc.DialOption
}

// DialOption is an option of Dial.
type DialOption func(*dialConfig)

// WithTimeout sets the deadline of calls whose context has none, instead of CallTimeout.
func WithTimeout(d time.Duration) DialOption { return func(c *dialConfig) { c.timeout = d } }

// WithIdentity makes TLS connections with the caller's certificate, to servers with the callee's.
func WithIdentity(i *Identity) DialOption { return func(c *dialConfig) { c.identity = i } }

// WithGRPC passes options to grpc, such as a dialer for tests.
func WithGRPC(opts ...grpc.DialOption) DialOption {
	return func(c *dialConfig) { c.extra = append(c.extra, opts...) }
}

// Conn is a connection to another service. It is safe for concurrent use.
type Conn struct {
	*grpc.ClientConn

	signer *signer
}

// Rekey signs all further calls with the first key of another set. If a key is too short it fails
// and changes nothing.
func (c *Conn) Rekey(key config.Secret) error { return c.signer.rekey(key) }

// Dial makes a connection from the service self to callee; it does not wait for the callee. Calls
// are signed, balanced over the serving replicas, given a deadline, and retried on UNAVAILABLE if
// their method is declared idempotent. Their errors are *errs.Error. They are traced if telemetry
// was set up before.
func Dial(self, callee string, p Peer, opts ...DialOption) (*Conn, error) {
	if p.Addr == "" {
		return nil, fmt.Errorf("rpc: no address of %s", callee)
	}
	signer, err := newSigner(self, callee, p.Key)
	if err != nil {
		return nil, err
	}
	cfg := dialConfig{timeout: CallTimeout}
	for _, o := range opts {
		o(&cfg)
	}
	c := &callInterceptor{callee: callee, cfg: cfg, signer: signer}
	all := append([]grpc.DialOption{
		grpc.WithTransportCredentials(cfg.identity.transport(callee, nil)),
		grpc.WithDefaultServiceConfig(serviceConfig(callee)),
		grpc.WithDisableServiceConfig(), // a resolver must not replace the service config
		grpc.WithResolvers(nameResolver{cfg.lookup}),
		grpc.WithChainUnaryInterceptor(c.interceptUnary),
		grpc.WithChainStreamInterceptor(c.interceptStream),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithConnectParams(connectParams),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithIdleTimeout(0),
	}, cfg.extra...)
	if telemetry.Enabled() {
		all = append(all, grpc.WithStatsHandler(otelgrpc.NewClientHandler(untracedHealth)))
	}
	conn, err := grpc.NewClient(p.Addr, all...)
	if err != nil {
		return nil, fmt.Errorf("rpc: %s at %q: %w", callee, p.Addr, err)
	}
	return &Conn{conn, signer}, nil
}

type callInterceptor struct {
	callee string
	cfg    dialConfig
	signer *signer
}

func (c *callInterceptor) interceptUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.timeout)
		defer cancel()
	}
	start := time.Now()
	done, err := c.allowCall()
	if err != nil {
		clientSeconds.WithLabelValues(c.callee, method, kindLabel(err)).Observe(0)
		return err
	}
	e := fromWire(invoke(c.outgoingContext(ctx, method), method, req, reply, cc, opts...))
	done(e)
	clientSeconds.WithLabelValues(c.callee, method, kindLabel(e)).Observe(time.Since(start).Seconds())
	return asError(e)
}

// interceptStream signs the opening of a stream and translates its errors. Streams bypass the
// breaker, since their watchers reconnect with back-off.
func (c *callInterceptor) interceptStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	cs, err := streamer(c.outgoingContext(ctx, method), desc, cc, method, opts...)
	if err != nil {
		return nil, asError(fromWire(err))
	}
	return &clientStream{cs}, nil
}

func (c *callInterceptor) outgoingContext(ctx context.Context, method string) context.Context {
	if id := telemetry.RequestID(ctx); id != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, requestIDMeta, id)
	}
	return metadata.AppendToOutgoingContext(ctx, authKey, c.signer.authHeader(method))
}

// fromWire converts a received status to an error. A refused caller becomes an internal error: the
// configuration of this service is wrong, not the user's request.
func fromWire(err error) *errs.Error {
	e := errs.FromStatus(err)
	if e != nil && e.Reason == errs.ErrCallerRefused.Reason {
		return errs.ErrInternal.Wrap(err)
	}
	return e
}

type clientStream struct{ grpc.ClientStream }

func (s *clientStream) RecvMsg(m any) error { return translateError(s.ClientStream.RecvMsg(m)) }

func (s *clientStream) SendMsg(m any) error { return translateError(s.ClientStream.SendMsg(m)) }

func translateError(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // grpc returns io.EOF itself
		return err
	}
	return asError(fromWire(err))
}
