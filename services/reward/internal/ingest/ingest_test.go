package ingest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/ingest"
)

// fakeIngest has one promotion.
type fakeIngest struct {
	ingestv1.UnimplementedIngestServiceServer
}

func (fakeIngest) GetPromotion(_ context.Context, req *ingestv1.GetPromotionRequest) (*ingestv1.Promotion, error) {
	if req.GetEventId() != "known" {
		return nil, errs.ErrPromotionNotFound
	}
	return &ingestv1.Promotion{EventId: req.GetEventId()}, nil
}

func TestCheckExists(t *testing.T) {
	t.Parallel()
	c := ingest.New(rpctest.Serve(t, func(s grpc.ServiceRegistrar) { ingestv1.RegisterIngestServiceServer(s, fakeIngest{}) }, rpctest.As("reward")))
	require.NoError(t, c.CheckExists(t.Context(), "known"))
	require.ErrorIs(t, c.CheckExists(t.Context(), "unknown"), campaign.ErrNoPromotion)
}
