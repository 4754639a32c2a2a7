// Package queue asks the queue service how full tier 2 is, and which events there are.
package queue

import (
	"context"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/vwr/internal/room"
)

var (
	_ room.Loads = (*Client)(nil)
	_ room.Sales = (*Client)(nil)
)

// Client asks queue; without an address it answers that queue cannot be reached.
type Client struct {
	conn *rpc.Conn // nil without an address
	rpc  queuev1.QueueServiceClient
}

// New connects in the name of vwr; it does not wait for queue. An empty address is no error: then no event can be advanced by load.
func New(p rpc.Peer) (*Client, error) {
	if p.Addr == "" {
		return &Client{}, nil
	}
	conn, err := rpc.Dial("vwr", "queue", p, rpc.WithBreaker())
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, rpc: queuev1.NewQueueServiceClient(conn)}, nil
}

// Load is how many are in tier 2 of an event, and how many have arrived there since the round began.
func (c *Client) Load(ctx context.Context, eventID string) (room.Load, error) {
	if c.rpc == nil {
		return room.Load{}, errs.ErrUnavailable
	}
	res, err := c.rpc.GetLoad(ctx, &queuev1.GetLoadRequest{EventId: eventID})
	if err != nil {
		return room.Load{}, err
	}
	return room.Load{Waiting: res.GetWaiting(), Active: res.GetActive(), Arrived: res.GetArrived()}, nil
}

// Closed implements room.Sales.
func (c *Client) Closed(ctx context.Context, eventID string) (bool, error) {
	if c.rpc == nil {
		return false, errs.ErrUnavailable
	}
	res, err := c.rpc.GetSale(ctx, &queuev1.GetSaleRequest{EventId: eventID})
	return res.GetClosed(), err
}

// Rekey signs with another key of the pair from now on.
func (c *Client) Rekey(key config.Secret) error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Rekey(key)
}

// Close ends the connection.
func (c *Client) Close(context.Context) error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
