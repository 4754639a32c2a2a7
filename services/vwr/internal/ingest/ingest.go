// Package ingest is a client of the ingest service, which tells whether promotions have ended.
package ingest

import (
	"context"

	"google.golang.org/grpc"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/vwr/internal/room"
)

var _ room.Destination = (*Client)(nil)

// Client asks the ingest service whether promotions have ended.
type Client struct {
	rpc ingestv1.IngestServiceClient
}

// New returns a Client that calls the ingest service over conn.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{rpc: ingestv1.NewIngestServiceClient(conn)}
}

// Ended reports whether a promotion has ended, at its closing time or early. It fails with
// room.ErrNoPromotion if no promotion has the id.
func (c *Client) Ended(ctx context.Context, id string) (bool, error) {
	res, err := c.rpc.GetPromotion(ctx, &ingestv1.GetPromotionRequest{EventId: id})
	if err != nil {
		return false, err
	}
	switch res.GetStatus() {
	case "Scheduled", "Open":
		return false, nil
	}
	return true, nil
}
