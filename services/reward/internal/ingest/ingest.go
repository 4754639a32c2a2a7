// Package ingest asks the ingest service whether a promotion exists.
package ingest

import (
	"context"
	"time"

	"google.golang.org/grpc"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/reward/internal/campaign"
)

var _ campaign.PromotionChecker = (*Client)(nil)

// timeout is the time limit of a call to the ingest service. An operator waits for its answer.
const timeout = 2 * time.Second

// Client calls the ingest service.
type Client struct {
	rpc ingestv1.IngestServiceClient
}

// New returns a Client that calls the ingest service over conn.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{rpc: ingestv1.NewIngestServiceClient(conn)}
}

// CheckExists fails with campaign.ErrNoPromotion when no promotion has the id.
func (c *Client) CheckExists(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := c.rpc.GetPromotion(ctx, &ingestv1.GetPromotionRequest{EventId: id})
	return err
}
