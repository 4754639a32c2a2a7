// Package reward is a client of the reward service, which tells whether campaigns have ended.
package reward

import (
	"context"

	"google.golang.org/grpc"

	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/vwr/internal/room"
)

var _ room.Destination = (*Client)(nil)

// Client asks the reward service whether campaigns have ended.
type Client struct {
	rpc rewardv1.RewardServiceClient
}

// New returns a Client that calls the reward service over conn.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{rpc: rewardv1.NewRewardServiceClient(conn)}
}

// Ended reports whether a campaign has ended, at its closing time or early. It fails with
// room.ErrNoCampaign if no campaign has the id.
func (c *Client) Ended(ctx context.Context, id string) (bool, error) {
	res, err := c.rpc.GetCampaign(ctx, &rewardv1.GetCampaignRequest{EventId: id})
	if err != nil {
		return false, err
	}
	switch res.GetStatus() {
	case "SCHEDULED", "OPEN":
		return false, nil
	}
	return true, nil
}
