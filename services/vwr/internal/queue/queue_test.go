package queue_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/waittest"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/vwr/internal/queue"
	"urr.guru/services/vwr/internal/room"
)

// line answers GetLoad as queue does; its other methods are not there.
type line struct {
	queuev1.UnimplementedQueueServiceServer
}

func (line) GetLoad(_ context.Context, req *queuev1.GetLoadRequest) (*queuev1.GetLoadResponse, error) {
	if req.GetEventId() != "demo" {
		return nil, errs.ErrUnavailable
	}
	return &queuev1.GetLoadResponse{Waiting: 3, Active: 5, Parked: 7, Arrived: 11}, nil
}

func (line) GetSale(_ context.Context, req *queuev1.GetSaleRequest) (*queuev1.GetSaleResponse, error) {
	if req.GetEventId() == "unknown" {
		return nil, errs.ErrEventNotFound
	}
	return &queuev1.GetSaleResponse{Closed: req.GetEventId() == "over"}, nil
}

// listen serves queue on loopback, which lets vwr in with its key.
func listen(t *testing.T, key config.Secret) string {
	t.Helper()
	s, err := rpc.NewServer("queue", rpc.ServerConfig{Accept: map[string]config.Secret{"vwr": key, "gateway": key}}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	queuev1.RegisterQueueServiceServer(grpc.ServiceRegistrar(s), line{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Stop(context.Background()))
		require.NoError(t, <-done)
	})
	return l.Addr().String()
}

func TestLoad(t *testing.T) {
	t.Parallel()
	const key = config.Secret("the key of the pair vwr → queue!!")
	c, err := queue.New(rpc.Peer{Addr: listen(t, key), Key: key})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	ctx, cancel := waittest.Context(t) // the call's own limit would be that of a server which answers soon
	defer cancel()
	got, err := c.Load(ctx, "demo")
	require.NoError(t, err)
	require.Equal(t, room.Load{Waiting: 3, Active: 5, Arrived: 11}, got)
	_, err = c.Load(ctx, "other")
	require.ErrorIs(t, err, errs.ErrUnavailable)

	for event, want := range map[string]bool{"demo": false, "over": true} {
		closed, err := c.Closed(ctx, event)
		require.NoError(t, err)
		require.Equal(t, want, closed)
	}
	_, err = c.Closed(ctx, "unknown")
	require.ErrorIs(t, err, room.ErrNoEvent)
}

func TestLoadWithoutQueue(t *testing.T) {
	t.Parallel()
	c, err := queue.New(rpc.Peer{})
	require.NoError(t, err)
	_, err = c.Load(t.Context(), "demo")
	require.ErrorIs(t, err, errs.ErrUnavailable)
	_, err = c.Closed(t.Context(), "demo")
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.NoError(t, c.Close(t.Context()))
	_, err = queue.New(rpc.Peer{Addr: "q:1", Key: "short"})
	require.Error(t, err, "a short key")
}
