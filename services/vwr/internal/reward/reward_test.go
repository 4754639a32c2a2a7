package reward_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/vwr/internal/reward"
	"urr.guru/services/vwr/internal/room"
)

// fakeReward has a campaign for every id but one, whose status is its id.
type fakeReward struct {
	rewardv1.UnimplementedRewardServiceServer
}

func (fakeReward) GetCampaign(_ context.Context, req *rewardv1.GetCampaignRequest) (*rewardv1.Campaign, error) {
	if req.GetEventId() == "unknown" {
		return nil, errs.ErrCampaignNotFound
	}
	return &rewardv1.Campaign{EventId: req.GetEventId(), Status: req.GetEventId()}, nil
}

func TestEnded(t *testing.T) {
	t.Parallel()
	c := reward.New(rpctest.Serve(t, func(s grpc.ServiceRegistrar) { rewardv1.RegisterRewardServiceServer(s, fakeReward{}) }, rpctest.As("vwr")))
	// The default timeout of a call may be too short on a busy machine.
	ctx, cancel := testkit.Context(t)
	defer cancel()
	ended := func(status string) bool {
		ended, err := c.Ended(ctx, status)
		require.NoError(t, err)
		return ended
	}
	for _, status := range []string{"SCHEDULED", "OPEN"} {
		require.False(t, ended(status), status)
	}
	for _, status := range []string{"CLOSED", "CANCELLED"} {
		require.True(t, ended(status), status)
	}
	_, err := c.Ended(ctx, "unknown")
	require.ErrorIs(t, err, room.ErrNoCampaign)
}
