// Package rpctest runs gRPC services in memory with the interceptors of production, so that tests
// cover validation, access and errors.
package rpctest

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

const key = config.Secret("rpctest-key-of-thirty-two-bytes!")

type serveOptions struct {
	name   string
	caller string
	log    *slog.Logger
	dial   []rpc.DialOption
}

// Option configures Serve.
type Option func(*serveOptions)

// As sets the service that makes all calls; the default is the first allowed caller of each method.
func As(caller string) Option { return func(o *serveOptions) { o.caller = caller } }

// Named sets the name of the server to that of a real service, so that the client retries as it
// does for that service.
func Named(name string) Option { return func(o *serveOptions) { o.name = name } }

// WithLogger sets the logger of the server.
func WithLogger(log *slog.Logger) Option { return func(o *serveOptions) { o.log = log } }

// WithDial adds options for the client.
func WithDial(opts ...rpc.DialOption) Option {
	return func(o *serveOptions) { o.dial = append(o.dial, opts...) }
}

// Serve registers services on a server in memory and returns a connection to it. Both end with the
// test.
func Serve(t testing.TB, register func(grpc.ServiceRegistrar), opts ...Option) grpc.ClientConnInterface {
	t.Helper()
	o := serveOptions{name: "rpctest", log: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&o)
	}
	var registered serviceRegistry
	register(&registered)
	allowedCallers := registered.allowedCallers(t)

	accept := make(map[string]config.Secret)
	for _, allowed := range allowedCallers {
		for _, c := range allowed {
			accept[c] = key
		}
	}
	if o.caller != "" {
		accept[o.caller] = key
	}
	s, err := rpc.NewServer(o.name, rpc.ServerConfig{Accept: accept}, o.log)
	if err != nil {
		t.Fatalf("rpctest: %v", err)
	}
	register(s)
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Stop(ctx) // streams that the test left open are ended
		if err := <-served; err != nil {
			t.Errorf("rpctest: %v", err)
		}
	})

	conns := make(router)
	for method, allowed := range allowedCallers {
		caller := allowed[0]
		if o.caller != "" {
			caller = o.caller
		}
		if conns[caller] == nil {
			conns[caller] = dial(t, caller, o.name, l, o.dial)
		}
		conns[method] = conns[caller]
	}
	return conns
}

func dial(t testing.TB, caller, callee string, l *bufconn.Listener, opts []rpc.DialOption) *rpc.Conn {
	t.Helper()
	opts = append(opts, rpc.WithGRPC(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return l.DialContext(ctx)
	})))
	conn, err := rpc.Dial(caller, callee, rpc.Peer{Addr: "passthrough:///bufconn", Key: key}, opts...)
	if err != nil {
		t.Fatalf("rpctest: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// router sends the call of a method over the connection of a service that may call it.
type router map[string]*rpc.Conn

var _ grpc.ClientConnInterface = router(nil)

func (r router) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return r[method].Invoke(ctx, method, args, reply, opts...)
}

func (r router) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return r[method].NewStream(ctx, desc, method, opts...)
}

// serviceRegistry records the names of the services that are registered.
type serviceRegistry []string

func (s *serviceRegistry) RegisterService(desc *grpc.ServiceDesc, _ any) {
	*s = append(*s, desc.ServiceName)
}

// allowedCallers returns, for each method, the services that may call it.
func (s *serviceRegistry) allowedCallers(t testing.TB) map[string][]string {
	t.Helper()
	allowedCallers := make(map[string][]string)
	for _, name := range *s {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Fatalf("rpctest: %s: %v", name, err)
		}
		methods := d.(protoreflect.ServiceDescriptor).Methods() //nolint:forcetypeassert // a registered service
		for i := range methods.Len() {
			md := methods.Get(i)
			access, _ := proto.GetExtension(md.Options(), commonv1.E_Access).(*commonv1.Access)
			if len(access.GetCallers()) > 0 {
				allowedCallers["/"+name+"/"+string(md.Name())] = access.GetCallers()
			}
		}
	}
	return allowedCallers
}
