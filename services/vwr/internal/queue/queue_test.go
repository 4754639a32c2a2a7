package queue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/vwr/internal/queue"
	"urr.guru/services/vwr/internal/room"
)

// fakeQueue implements GetLoad and GetSale; its other methods are unimplemented.
type fakeQueue struct {
	queuev1.UnimplementedQueueServiceServer
}

func (fakeQueue) GetLoad(_ context.Context, req *queuev1.GetLoadRequest) (*queuev1.GetLoadResponse, error) {
	if req.GetEventId() != "demo" {
		return nil, errs.ErrUnavailable
	}
	return &queuev1.GetLoadResponse{Waiting: 3, Active: 5, Parked: 7, Arrived: 11}, nil
}

func (fakeQueue) GetSale(_ context.Context, req *queuev1.GetSaleRequest) (*queuev1.GetSaleResponse, error) {
	if req.GetEventId() == "unknown" {
		return nil, errs.ErrEventNotFound
	}
	return &queuev1.GetSaleResponse{Closed: req.GetEventId() == "over"}, nil
}

func TestLoad(t *testing.T) {
	t.Parallel()
	c := queue.New(rpctest.Serve(t, func(s grpc.ServiceRegistrar) { queuev1.RegisterQueueServiceServer(s, fakeQueue{}) }, rpctest.As("vwr")))
	// The default timeout of a call may be too short on a busy machine.
	ctx, cancel := testkit.Context(t)
	defer cancel()
	got, err := c.ReadLoad(ctx, "demo")
	require.NoError(t, err)
	require.Equal(t, room.TierTwoLoad{Waiting: 3, Active: 5, Arrived: 11}, got)
	_, err = c.ReadLoad(ctx, "other")
	require.ErrorIs(t, err, errs.ErrUnavailable)

	for event, want := range map[string]bool{"demo": false, "over": true} {
		closed, err := c.Ended(ctx, event)
		require.NoError(t, err)
		require.Equal(t, want, closed)
	}
	_, err = c.Ended(ctx, "unknown")
	require.ErrorIs(t, err, room.ErrNoEvent)
}

func TestLoadWithoutQueue(t *testing.T) {
	t.Parallel()
	c := queue.New(nil)
	_, err := c.ReadLoad(t.Context(), "demo")
	require.ErrorIs(t, err, errs.ErrUnavailable)
	_, err = c.Ended(t.Context(), "demo")
	require.ErrorIs(t, err, errs.ErrUnavailable)
}
