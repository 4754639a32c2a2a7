// Package queue is a client of the queue service, for the load of tier 2 and the ends of sales.
package queue

import (
	"context"

	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/vwr/internal/room"
)

var (
	_ room.LoadSource  = (*Client)(nil)
	_ room.Destination = (*Client)(nil)
)

// Client asks the queue service how full tier 2 is, and whether sales have ended. Without a
// connection its methods fail with errs.ErrUnavailable.
type Client struct {
	rpc queuev1.QueueServiceClient // nil without a connection
}

// New returns a Client. conn may be nil; then ReadLoad and Ended always fail.
func New(conn grpc.ClientConnInterface) *Client {
	if conn == nil {
		return &Client{}
	}
	return &Client{rpc: queuev1.NewQueueServiceClient(conn)}
}

// ReadLoad returns how many users of an event wait in tier 2, how many are inside, and how many
// have arrived there since the round began.
func (c *Client) ReadLoad(ctx context.Context, eventID string) (room.TierTwoLoad, error) {
	if c.rpc == nil {
		return room.TierTwoLoad{}, errs.ErrUnavailable
	}
	res, err := c.rpc.GetLoad(ctx, &queuev1.GetLoadRequest{EventId: eventID})
	if err != nil {
		return room.TierTwoLoad{}, err
	}
	return room.TierTwoLoad{Waiting: res.GetWaiting(), Active: res.GetActive(), Arrived: res.GetArrived()}, nil
}

// Ended reports whether the sale of an event has ended. It is false for an id without a sale.
func (c *Client) Ended(ctx context.Context, eventID string) (bool, error) {
	if c.rpc == nil {
		return false, errs.ErrUnavailable
	}
	res, err := c.rpc.GetSale(ctx, &queuev1.GetSaleRequest{EventId: eventID})
	return res.GetClosed(), err
}
