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

// A pair's key is a set on both sides: the first signs, all verify. So it is replaced by adding the
// new one behind, then putting it in front, then dropping the old one, each on both sides in any
// order.
func TestKeysOfAPairRotate(t *testing.T) {
	t.Parallel()
	const old, next = "the-old-key-of-the-pair-32-bytes", "the-new-key-of-the-pair-32-bytes"
	steps := []config.Secret{old, old + "|" + next, next + "|" + old, next}
	call := func(caller, callee config.Secret) error {
		s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": callee, "vwr": vwrKey}}, slog.New(slog.DiscardHandler))
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
			if i-j <= 1 && j-i <= 1 { // neighbouring steps stand beside each other while a step is rolled out
				require.NoError(t, err, "caller at step %d, callee at step %d", i, j)
			}
		}
	}
	require.Error(t, call(old, next))
	require.Error(t, call(next, old))
}

func TestShortKeysOfASetAreRefused(t *testing.T) {
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

// The same while both sides run: a key is exchanged under calls, and none is refused.
func TestKeysOfAPairRotateWhileCallsAreMade(t *testing.T) {
	t.Parallel()
	const old, next = "the-old-key-of-the-pair-32-bytes", "the-new-key-of-the-pair-32-bytes"
	accept := func(key config.Secret) map[string]config.Secret {
		return map[string]config.Secret{"gateway": key, "vwr": vwrKey}
	}
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: accept(old)}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	queuev1.RegisterQueueServiceServer(s, &fakeQueue{})
	l := bufconn.Listen(1 << 16)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, <-done)
	})
	conn, err := rpc.Dial("gateway", "queue", rpc.Peer{Addr: "passthrough:///x", Key: old}, rpc.WithGRPC(dialer(l)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	call := func() error {
		_, err := queuev1.NewQueueServiceClient(conn).Leave(t.Context(), &queuev1.LeaveRequest{EventId: "demo"})
		return err
	}

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
	step := func(set config.Secret) {
		require.NoError(t, s.Rekey(accept(set)))
		require.NoError(t, call())
		require.NoError(t, conn.Rekey(set))
		require.NoError(t, call())
	}
	step(old + "|" + next)
	step(next + "|" + old)
	close(ended)
	callers.Wait() // what the old key has signed has arrived: it may go
	require.Nil(t, refused.Load())
	step(next)

	require.ErrorContains(t, conn.Rekey("short"), "gateway → queue")
	require.ErrorContains(t, s.Rekey(accept("short")), "gateway")
	require.ErrorContains(t, s.Rekey(map[string]config.Secret{"gateway": next}), `lets "vwr" in`)
	require.NoError(t, call(), "what is refused changes nothing")
	require.NoError(t, s.Rekey(accept(old)))
	require.Error(t, call(), "the key that was dropped opens nothing any more, not even a signature seen before")
}
