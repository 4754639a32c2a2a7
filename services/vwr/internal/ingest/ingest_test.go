package ingest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/vwr/internal/ingest"
	"urr.guru/services/vwr/internal/room"
)

// fakeIngest has a promotion for every id but one, whose status is its id.
type fakeIngest struct {
	ingestv1.UnimplementedIngestServiceServer
}

func (fakeIngest) GetPromotion(_ context.Context, req *ingestv1.GetPromotionRequest) (*ingestv1.Promotion, error) {
	if req.GetEventId() == "unknown" {
		return nil, errs.ErrPromotionNotFound
	}
	return &ingestv1.Promotion{EventId: req.GetEventId(), Status: req.GetEventId()}, nil
}

func TestEnded(t *testing.T) {
	t.Parallel()
	c := ingest.New(rpctest.Serve(t, func(s grpc.ServiceRegistrar) { ingestv1.RegisterIngestServiceServer(s, fakeIngest{}) }, rpctest.As("vwr")))
	// The default timeout of a call may be too short on a busy machine.
	ctx, cancel := testkit.Context(t)
	defer cancel()
	ended := func(status string) bool {
		ended, err := c.Ended(ctx, status)
		require.NoError(t, err)
		return ended
	}
	for _, status := range []string{"Scheduled", "Open"} {
		require.False(t, ended(status), status)
	}
	for _, status := range []string{"Closed", "Announced", "Void"} {
		require.True(t, ended(status), status)
	}
	_, err := c.Ended(ctx, "unknown")
	require.ErrorIs(t, err, room.ErrNoPromotion)
}
