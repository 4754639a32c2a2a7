package rpc_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"urr.guru/pkg/config"
	"urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// Caller and callee both have a set of keys: the first signs, all verify. To replace a key, the new
// one is added after the old one, then moved to the front, then the old one is removed. In each
// step either side may go first.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	steps := []config.Secret{oldKey, oldKey + "|" + newKey, newKey + "|" + oldKey, newKey}
	call := func(caller, callee config.Secret) error {
		s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: acceptedKeys(callee)}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		queuev1.RegisterQueueServiceServer(s, &fakeQueue{})
		l := bufconn.Listen(1 << 16)
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		conn, err := rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: caller}, rpc.WithGRPC(dialer(l)))
		require.NoError(t, err)
		_, err = queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		require.NoError(t, conn.Close())
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, <-done)
		return err
	}
	for i, caller := range steps {
		for j, callee := range steps {
			err := call(caller, callee)
			if i-j <= 1 && j-i <= 1 { // neighbouring steps coexist during a rollout
				require.NoError(t, err, "caller at step %d, callee at step %d", i, j)
			}
		}
	}
	require.Error(t, call(oldKey, newKey))
	require.Error(t, call(newKey, oldKey))
}

func TestShortKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, set := range []config.Secret{gatewayKey + "|short", "short|" + gatewayKey, gatewayKey + "|"} {
		_, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": set}}, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "gateway")
		require.NotContains(t, err.Error(), gatewayKey.Reveal())
		_, err = rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: set})
		require.ErrorContains(t, err, "gateway → queue")
		require.NotContains(t, err.Error(), gatewayKey.Reveal())
	}
}

// The keys of the rotation tests.
const (
	oldKey = "the-old-key-of-the-pair-32-bytes"
	newKey = "the-new-key-of-the-pair-32-bytes"
)

// acceptedKeys returns the keys of queue for its callers, with the given set for the gateway.
func acceptedKeys(set config.Secret) map[string]config.Secret {
	return map[string]config.Secret{"gateway": set, "room": vwrKey, "vwr": vwrKey}
}

// runningPair returns a queue and a gateway that calls it over one connection, both with oldKey.
func runningPair(t *testing.T) (s *rpc.Server, conn *rpc.Conn, call func() error) {
	t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: acceptedKeys(oldKey)}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	queuev1.RegisterQueueServiceServer(s, &fakeQueue{})
	l := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, <-done)
	})
	conn, err = rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: oldKey}, rpc.WithGRPC(dialer(l)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return s, conn, func() error {
		_, err := queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		return err
	}
}

// callInParallel makes calls without pause until stop, which returns an error if any call failed.
func callInParallel(call func() error) (stop func() error) {
	var callers sync.WaitGroup
	var refused atomic.Pointer[error]
	ended := make(chan struct{})
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					if err := call(); err != nil {
						refused.Store(&err)
					}
				}
			}
		})
	}
	return func() error {
		close(ended)
		callers.Wait()
		if err := refused.Load(); err != nil {
			return *err
		}
		return nil
	}
}

// Keys are replaced on running services without refusing a call.
func TestKeyRotationUnderCalls(t *testing.T) {
	t.Parallel()
	s, conn, call := runningPair(t)
	stop := callInParallel(call)
	step := func(set config.Secret) {
		require.NoError(t, s.Rekey(acceptedKeys(set)))
		require.NoError(t, call())
		require.NoError(t, conn.Rekey(set))
		require.NoError(t, call())
	}
	step(oldKey + "|" + newKey)
	step(newKey + "|" + oldKey)
	require.NoError(t, stop()) // no signature of the old key is in flight
	step(newKey)

	require.ErrorContains(t, conn.Rekey("short"), "gateway → queue")
	require.ErrorContains(t, s.Rekey(acceptedKeys("short")), "gateway")
	require.ErrorContains(t, s.Rekey(map[string]config.Secret{"gateway": newKey, "room": vwrKey}), `lets "vwr" in`)
	require.NoError(t, call(), "a failed Rekey changes nothing")
	require.NoError(t, s.Rekey(acceptedKeys(oldKey)))
	require.Error(t, call(), "a removed key is refused, even for a signature that was verified before")
}
