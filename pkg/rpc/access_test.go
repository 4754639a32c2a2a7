package rpc_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

type fakeVwrAdmin struct {
	vwrv1.UnimplementedVwrAdminServiceServer

	advance func() error
}

func (f *fakeVwrAdmin) Advance(context.Context, *vwrv1.AdvanceRequest) (*vwrv1.VwrStatus, error) {
	return nil, f.advance()
}

func registerVwrAdmin(r grpc.ServiceRegistrar, fn func() error) {
	vwrv1.RegisterVwrAdminServiceServer(r, &fakeVwrAdmin{advance: fn})
}

func advance(t *testing.T, conn grpc.ClientConnInterface) error {
	t.Helper()
	_, err := vwrv1.NewVwrAdminServiceClient(conn).Advance(t.Context(), &vwrv1.AdvanceRequest{EventId: "demo"})
	return err
}

const (
	gatewayKey = config.Secret("gateway-key-gateway-key-gateway-")
	vwrKey     = config.Secret("vwr-key-vwr-key-vwr-key-vwr-key-")
	roomKey    = config.Secret("room-key-room-key-room-key-room-k")
)

// start serves f as "queue" in memory. It returns a function that connects as any caller.
func start(t *testing.T, f *fakeQueue) func(self, callee string, key config.Secret) queuev1.QueueServiceClient {
	t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": gatewayKey, "room": roomKey, "vwr": vwrKey}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	queuev1.RegisterQueueServiceServer(s, f)
	l := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, <-done)
	})
	return func(self, callee string, key config.Secret) queuev1.QueueServiceClient {
		conn, err := rpc.Dial(self, callee, rpc.Peer{Addr: "passthrough:///x", Key: key}, rpc.WithGRPC(dialer(l)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return queuev1.NewQueueServiceClient(conn)
	}
}

func dialer(l *bufconn.Listener) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
}

func TestAccess(t *testing.T) {
	t.Parallel()
	dial := start(t, &fakeQueue{})
	load := func(q queuev1.QueueServiceClient) error {
		_, err := q.GetLoad(t.Context(), &queuev1.GetLoadRequest{EventId: "demo"})
		return err
	}
	leave := func(q queuev1.QueueServiceClient) error {
		_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		return err
	}
	require.NoError(t, load(dial("vwr", "queue", vwrKey)))
	require.NoError(t, leave(dial("gateway", "queue", gatewayKey)))
	for name, err := range map[string]error{
		"a method for others":        leave(dial("vwr", "queue", vwrKey)),
		"a method for vwr":           load(dial("gateway", "queue", gatewayKey)),
		"the name of another caller": leave(dial("gateway", "queue", vwrKey)),
		"a caller without key":       leave(dial("ticket", "queue", gatewayKey)),
		"signed for another callee":  leave(dial("gateway", "ticket", gatewayKey)),
		"a name that looks nested":   leave(dial("gateway v1", "queue", gatewayKey)),
	} {
		// A misconfigured key is a server error, never a 403 for the user.
		require.ErrorIs(t, err, errs.ErrInternal, name)
		require.NotContains(t, err.Error(), "no key", name)
	}
}

// rawCall returns a function that calls Leave with any metadata.
func rawCall(t *testing.T, f *fakeQueue) func(md metadata.MD) error {
	t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": gatewayKey, "room": roomKey, "vwr": vwrKey}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	queuev1.RegisterQueueServiceServer(s, f)
	s.SetServing(true)
	l := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///x", dialer(l), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, <-done)
	})
	h, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err, "health needs no signature")
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, h.GetStatus())
	return func(md metadata.MD) error {
		_, err := queuev1.NewQueueServiceClient(conn).Leave(metadata.NewOutgoingContext(t.Context(), md), &queuev1.LeaveRequest{EventId: "demo"})
		return err
	}
}

func TestUnsignedCallsAreRefused(t *testing.T) {
	t.Parallel()
	call := rawCall(t, &fakeQueue{})
	for name, header := range map[string]string{
		"none": "", "rubbish": "hello", "wrong mac": "v1 gateway 1700000000 AAAA", "no time": "v1 gateway now AAAA", "no mac": "v1 gateway 1700000000",
		"another version": "v2 gateway 1700000000 AAAA",
	} {
		md := metadata.MD{}
		if header != "" {
			md.Set("urr-auth", header)
		}
		require.Equal(t, errs.ErrCallerRefused.Reason, errs.FromStatus(call(md)).Reason, name)
	}
	require.Equal(t, errs.ErrCallerRefused.Reason, errs.FromStatus(call(metadata.Pairs("urr-auth", "a", "urr-auth", "b"))).Reason)
}

// Refused calls are counted by the service that they claim to be from, if the server knows that one.
func TestRefusedCallersAreCounted(t *testing.T) {
	t.Parallel()
	const method = "/urr.queue.v1.QueueService/Leave"
	count := func(caller string) float64 {
		n, _ := metricstest.MetricSum(t, "urr_rpc_refused_callers_total", map[string]string{"method": method, "caller": caller})
		return n
	}
	call := rawCall(t, &fakeQueue{})
	forged := func(caller string) metadata.MD {
		return metadata.Pairs("urr-auth", rpc.Sign("another key of at least 32 bytes", caller, "queue", method, time.Now()))
	}
	for claimed, md := range map[string]metadata.MD{"gateway": forged("gateway"), "unknown": forged("stranger")} {
		before := count(claimed)
		require.Error(t, call(md))
		require.Greater(t, count(claimed), before, claimed)
	}
	require.Zero(t, count("stranger"), "nobody makes up values of the label")
}

// A signature is valid for one method and half a minute, which limits the use of an intercepted
// one.
func TestSignatureIsBoundToMethodAndTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method string
		age    time.Duration
		good   bool
	}{
		"now":            {"Leave", 0, true},
		"30 s ago":       {"Leave", 30 * time.Second, true},
		"30 s ahead":     {"Leave", -30 * time.Second, true},
		"31 s ago":       {"Leave", 31 * time.Second, false},
		"31 s ahead":     {"Leave", -31 * time.Second, false},
		"another method": {"Check", 0, false},
		"the far future": {"Leave", -1 << 62, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				signed := rpc.Sign(gatewayKey, "gateway", "queue", "/urr.queue.v1.QueueService/"+tc.method, time.Now().Add(-tc.age))
				err := rawCall(t, &fakeQueue{})(metadata.Pairs("urr-auth", signed))
				if tc.good {
					require.NoError(t, err)
					return
				}
				require.Equal(t, errs.ErrCallerRefused.Reason, errs.FromStatus(err).Reason)
			})
		})
	}
	refused := rawCall(t, &fakeQueue{})(metadata.Pairs("urr-auth",
		rpc.Sign(gatewayKey, "gateway", "queue", "/urr.queue.v1.QueueService/Leave", time.Unix(1<<62, 0))))
	require.Equal(t, errs.ErrCallerRefused.Reason, errs.FromStatus(refused).Reason, "the end of time")
}

func TestInvalidConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	_, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": "short"}}, log)
	require.ErrorContains(t, err, "at least 32")
	require.NotContains(t, err.Error(), "short")

	_, err = rpc.Dial("gateway", "queue", rpc.Peer{Addr: "x", Key: "short"})
	require.ErrorContains(t, err, "at least 32")

	_, err = rpc.Dial("gateway", "queue", rpc.Peer{Key: gatewayKey})
	require.ErrorContains(t, err, "no address of queue")

	for name, tc := range map[string]struct {
		accept   map[string]config.Secret
		register func(*rpc.Server)
		want     string
	}{
		"a caller's key is missing": {
			map[string]config.Secret{"gateway": gatewayKey},
			func(s *rpc.Server) { queuev1.RegisterQueueServiceServer(s, &fakeQueue{}) },
			`GetLoad lets "vwr" in, but RPC_ACCEPT has no key for it`,
		},
		"no access option": {
			map[string]config.Secret{"gateway": gatewayKey},
			func(s *rpc.Server) {
				grpc_health_v1.RegisterHealthServer(s, grpc_health_v1.UnimplementedHealthServer{})
			},
			"/grpc.health.v1.Health/Check does not declare who may call it",
		},
		"not in the registry": {
			map[string]config.Secret{"gateway": gatewayKey},
			func(s *rpc.Server) { s.RegisterService(&grpc.ServiceDesc{ServiceName: "urr.none.v1.None"}, nil) },
			"urr.none.v1.None",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: tc.accept}, log)
			require.NoError(t, err)
			tc.register(s)
			require.ErrorContains(t, s.Check(), tc.want)
			l := bufconn.Listen(1)
			require.ErrorContains(t, s.Serve(l), tc.want)
			require.NoError(t, s.Stop(t.Context()))
		})
	}
}

func TestCallerIsAcceptedFromTheGatewayOnly(t *testing.T) {
	t.Parallel()
	forged := &commonv1.Caller{UserId: "someone-else"}
	for name, msg := range map[string]proto.Message{
		"its own":    &queuev1.LeaveRequest{EventId: "demo", Caller: forged},
		"an empty":   &queuev1.LeaveRequest{EventId: "demo", Caller: &commonv1.Caller{}},
		"of an item": &queuev1.LineRequest{Items: []*queuev1.LineItem{{EventId: "demo"}, {EventId: "demo", Caller: forged}}},
	} {
		require.ErrorIs(t, rpc.Check(msg, "payment"), errs.ErrCallerRefused, name)
		require.NoError(t, rpc.Check(msg, "gateway"), name)
	}
	require.NoError(t, rpc.Check(&queuev1.LeaveRequest{EventId: "demo"}, "payment"))
}

func TestCallerHelpers(t *testing.T) {
	t.Parallel()
	admin := &queuev1.LeaveRequest{Caller: &commonv1.Caller{UserId: "ann", Roles: []string{"staff", "admin"}}}
	user, err := rpc.RequireRole(admin, "admin")
	require.NoError(t, err)
	require.Equal(t, "ann", user)
	_, err = rpc.RequireRole(&queuev1.LeaveRequest{Caller: &commonv1.Caller{UserId: "bob"}}, "admin")
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	for name, msg := range map[string]any{"no caller": &queuev1.LeaveRequest{}, "no member": &queuev1.LeaveResponse{}, "nil": nil, "roles only": &queuev1.LeaveRequest{Caller: &commonv1.Caller{Roles: []string{"admin"}}}} {
		require.NotNil(t, rpc.CallerFrom(msg), name)
		_, err := rpc.RequireRole(msg, "admin")
		require.ErrorIs(t, err, errs.ErrUnauthenticated, name)
	}
}

func TestStopEndsStreamsAndWaitsForCalls(t *testing.T) {
	t.Parallel()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": gatewayKey, "room": roomKey, "vwr": vwrKey}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	entered, release := make(chan struct{}, 2), make(chan struct{})
	queuev1.RegisterQueueServiceServer(s, &fakeQueue{
		leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
			entered <- struct{}{}
			<-release
			return &queuev1.LeaveResponse{}, nil
		},
		watch: func(ss grpc.ServerStreamingServer[queuev1.WatchLinesResponse]) error {
			entered <- struct{}{}
			<-ss.Context().Done()
			return ss.Context().Err()
		},
	})
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: gatewayKey}, rpc.WithGRPC(dialer(l)))
	require.NoError(t, err)
	defer conn.Close()
	q := queuev1.NewQueueServiceClient(conn)

	watch, err := q.WatchLines(t.Context(), &queuev1.WatchLinesRequest{})
	require.NoError(t, err)
	<-entered
	left := make(chan error, 1)
	go func() {
		_, err := q.Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		left <- err
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(t.Context()) }()

	_, err = watch.Recv()
	require.ErrorIs(t, err, errs.ErrUnavailable, "a stream is ended")
	require.Empty(t, stopped, "Stop waits for running calls")
	close(release)
	require.NoError(t, <-left)
	require.NoError(t, <-stopped)
	require.NoError(t, <-served)
}

// serveBlockedCall serves a queue whose Leave blocks until hold returns, and calls it. left and
// served return how the call and Serve end.
func serveBlockedCall(t *testing.T, hold func(context.Context)) (s *rpc.Server, left, served <-chan error) {
	t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": gatewayKey, "room": roomKey, "vwr": vwrKey}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	entered := make(chan struct{})
	queuev1.RegisterQueueServiceServer(s, &fakeQueue{leave: func(ctx context.Context, _ *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
		close(entered)
		hold(ctx)
		return nil, ctx.Err()
	}})
	l := bufconn.Listen(1 << 16)
	serving, leaving := make(chan error, 1), make(chan error, 1)
	go func() { serving <- s.Serve(l) }()
	conn, err := rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: gatewayKey}, rpc.WithGRPC(dialer(l)), rpc.WithTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		_, err := queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		leaving <- err
	}()
	<-entered
	return s, leaving, serving
}

// A handler that ignores its context must not block the shutdown.
func TestStopAbandonsAHangingHandler(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s, left, served := serveBlockedCall(t, func(context.Context) { <-release })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the deadline has passed
	require.ErrorIs(t, s.Stop(ctx), context.Canceled)
	close(release)
	require.Error(t, testkit.Receive(t, left))
	require.NoError(t, testkit.Receive(t, served))
}

func TestStopHasADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, left, served := serveBlockedCall(t, func(ctx context.Context) { <-ctx.Done() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, s.Stop(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
		require.Error(t, <-left)
		require.NoError(t, <-served)
		require.True(t, strings.HasPrefix(s.Name(), "queue"))
	})
}
