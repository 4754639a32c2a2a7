package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// fleet has the replicas of the service queue, each with its own address, and a fake DNS for them.
type fleet struct {
	t *testing.T

	mu       sync.Mutex
	replicas map[string]*member // by address
	found    []string           // the addresses that a look-up returns
	fails    error
	lookups  int
}

// member is one replica.
type member struct {
	*rpc.Server

	listener *bufconn.Listener
	calls    atomic.Int32
	fails    atomic.Pointer[errs.Error]
	served   chan error
	ended    bool
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, replicas: map[string]*member{}}
	t.Cleanup(func() {
		for host := range f.replicas {
			f.stop(host)
		}
	})
	return f
}

// add starts a replica that serves; look-ups do not find it yet.
func (f *fleet) add(host string) *member {
	f.t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: acceptedKeys(oldKey)}, slog.New(slog.DiscardHandler))
	require.NoError(f.t, err)
	m := &member{Server: s, listener: bufconn.Listen(1 << 16), served: make(chan error, 1)}
	queuev1.RegisterQueueServiceServer(s, &fakeQueue{leave: func(context.Context, *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
		m.calls.Add(1)
		if e := m.fails.Load(); e != nil {
			return nil, e
		}
		return &queuev1.LeaveResponse{}, nil
	}})
	s.SetServing(true)
	go func() { m.served <- s.Serve(m.listener) }()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas[host] = m
	return m
}

func (f *fleet) stop(host string) {
	f.t.Helper()
	f.mu.Lock()
	m := f.replicas[host]
	ended := m.ended
	m.ended = true
	f.mu.Unlock()
	if ended {
		return
	}
	require.NoError(f.t, m.Stop(context.Background()))
	require.NoError(f.t, <-m.served)
}

// setDNS sets the result of all further look-ups.
func (f *fleet) setDNS(err error, hosts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.found = err, hosts
}

func (f *fleet) lookup(context.Context, string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	return append([]string(nil), f.found...), f.fails
}

// dial connects like a service, with f as its DNS. call makes one call.
func (f *fleet) dial() (call func() error) {
	f.t.Helper()
	dialer := func(ctx context.Context, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		m := f.replicas[host]
		f.mu.Unlock()
		if m == nil {
			return nil, errors.New("no route to host")
		}
		return m.listener.DialContext(ctx)
	}
	conn, err := rpc.Dial("gateway", "queue", rpc.Peer{Addr: "dns:///queue-headless:9000", Key: oldKey},
		rpc.WithLookup(f.lookup), rpc.WithGRPC(grpc.WithContextDialer(dialer)))
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, conn.Close()) })
	client := queuev1.NewQueueServiceClient(conn)
	return func() error {
		_, err := client.Leave(f.t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		return err
	}
}

// waitIdle waits until the bubble is idle: connections and health reports have then arrived.
func waitIdle() { synctest.Wait() }

func TestReplicaThatLostItsStoreGetsNoCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b := f.add("10.0.0.1"), f.add("10.0.0.2")
		f.setDNS(nil, "10.0.0.1", "10.0.0.2")
		call := f.dial()
		calls := func(n int) (atA, atB int32) {
			waitIdle()
			wasA, wasB := a.calls.Load(), b.calls.Load()
			for range n {
				require.NoError(t, call())
			}
			return a.calls.Load() - wasA, b.calls.Load() - wasB
		}
		require.NoError(t, call())
		atA, atB := calls(10)
		require.EqualValues(t, 5, atA)
		require.EqualValues(t, 5, atB)
		a.SetServing(false)
		atA, atB = calls(10)
		require.Zero(t, atA, "the other replica serves")
		require.EqualValues(t, 10, atB)
		a.SetServing(true)
		atA, _ = calls(10)
		require.EqualValues(t, 5, atA, "its store is back")
	})
}

// After a loss that all replicas share, the first one that recovers must not get the calls of all.
func TestFewServingReplicasDoNotGetAllCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		addrs := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}
		var replicas []*member
		for _, addr := range addrs {
			replicas = append(replicas, f.add(addr))
		}
		f.setDNS(nil, addrs...)
		call := f.dial()
		require.NoError(t, call())
		callsOfFirst := func() int32 {
			waitIdle()
			was := replicas[0].calls.Load()
			for range 12 {
				require.NoError(t, call())
			}
			return replicas[0].calls.Load() - was
		}
		for _, m := range replicas[1:] {
			m.SetServing(false)
		}
		require.EqualValues(t, 3, callsOfFirst(), "one of four serves: all are called")
		replicas[1].SetServing(true)
		require.EqualValues(t, 6, callsOfFirst(), "half of them serve")
	})
}

// A store that all replicas share is away for 5 s. Calls fail at once with what the service says,
// and work as soon as the store is back.
func TestLossOfASharedStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		replicas := []*member{f.add("10.0.0.1"), f.add("10.0.0.2")}
		f.setDNS(nil, "10.0.0.1", "10.0.0.2")
		call := f.dial()
		require.NoError(t, call())
		away := errs.ErrUnavailable.WithRetry(time.Second)
		for _, m := range replicas {
			m.fails.Store(away)
			m.SetServing(false)
		}
		waitIdle()
		start := time.Now()
		for range 10 {
			require.ErrorIs(t, call(), errs.ErrUnavailable)
		}
		require.Zero(t, time.Since(start), "calls do not wait for a replica that serves")
		require.Positive(t, replicas[0].calls.Load())
		require.Positive(t, replicas[1].calls.Load(), "no replica is spared while none serves")
		<-time.After(5 * time.Second)

		for _, m := range replicas { // before a health check has seen it
			m.fails.Store(nil)
		}
		start = time.Now()
		require.NoError(t, call())
		require.Zero(t, time.Since(start))
	})
}

// Clients that know another replica leave a draining one at once. A client that knows no other uses
// it until it stops.
func TestDrainingReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		old := f.add("10.0.0.1")
		f.setDNS(nil, "10.0.0.1")
		call := f.dial()
		require.NoError(t, call())
		next := f.add("10.0.0.2")
		old.SetServing(false) // its drain begins
		waitIdle()
		require.NoError(t, call())
		require.EqualValues(t, 2, old.calls.Load())

		f.setDNS(nil, "10.0.0.1", "10.0.0.2") // the clients' DNS cache ends
		<-time.After(longestLookup)
		waitIdle()
		for range 4 {
			require.NoError(t, call())
		}
		require.EqualValues(t, 4, next.calls.Load())
		f.stop("10.0.0.1")
		require.NoError(t, call())
	})
}

// longestLookup is the longest time between two look-ups.
const longestLookup = 12 * time.Second

// New replicas are found without a failure that would cause a look-up. Their age at the first call
// is at most that of a DNS cache (30 s) plus the time between two look-ups.
func TestNewReplicaGetsCallsWithoutAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.add("10.0.0.1")
		f.setDNS(nil, "10.0.0.1")
		call := f.dial()
		require.NoError(t, call())
		for i, host := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"} {
			m := f.add(host)
			f.setDNS(nil, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}[:i+2]...)
			start := time.Now()
			for m.calls.Load() == 0 {
				require.Less(t, time.Since(start), longestLookup+time.Second, host) // calls go to the others in turn
				require.NoError(t, call())
				<-time.After(100 * time.Millisecond)
			}
			t.Logf("%s got its first call %v after look-ups could find it", host, time.Since(start))
		}
	})
}

// A name without an address, as before the first replica is ready, is looked up every second.
func TestNameWithoutAddress(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"no such host": &net.DNSError{Err: "no such host", Name: "queue-headless", IsNotFound: true},
		"server fails": &net.DNSError{Err: "server misbehaving", Name: "queue-headless", IsTemporary: true},
		"no address":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.setDNS(err)
				call := f.dial()
				require.ErrorIs(t, call(), errs.ErrUnavailable)
				<-time.After(10 * time.Minute)
				start := time.Now()
				require.ErrorIs(t, call(), errs.ErrUnavailable)
				require.Less(t, time.Since(start), time.Second, "retries only")

				f.add("10.0.0.1")
				f.setDNS(nil, "10.0.0.1")
				<-time.After(2 * time.Second)
				require.NoError(t, call())

				f.setDNS(err)
				<-time.After(time.Minute)
				require.NoError(t, call(), "known addresses stay in use")
			})
		})
	}
}

func TestLookupsAreRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.add("10.0.0.1")
		f.setDNS(nil, "10.0.0.1")
		call := f.dial()
		require.NoError(t, call())
		<-time.After(10 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		require.InDelta(t, 60, f.lookups, 15)
	})
}

// Clients and probes watch health for as long as they are connected.
func TestStopEndsWatchesOfHealth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		m := f.add("10.0.0.1")
		conn, err := grpc.NewClient("passthrough:///x", dialer(m.listener), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = watch.Recv()
		require.NoError(t, err)
		start := time.Now()
		f.stop("10.0.0.1")
		require.Zero(t, time.Since(start))
		_, err = watch.Recv()
		require.Error(t, err)
	})
}
