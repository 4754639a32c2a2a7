// Package worker is the client of the worker service, which opens the draws of lotteries.
package worker

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"

	"urr.guru/pkg/fairdraw"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/ingest/internal/request"
)

var _ request.DrawOpener = (*Client)(nil)

// Client asks the worker service to open draws.
type Client struct{ rpc workerv1.WorkerServiceClient }

// New returns a Client that calls the worker service over conn.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{rpc: workerv1.NewWorkerServiceClient(conn)}
}

// OpenDraw makes the worker service commit to these terms, and returns the final terms and nonce.
func (c *Client) OpenDraw(ctx context.Context, terms fairdraw.Commitment) (commitment, nonce string, err error) {
	text, err := json.Marshal(terms)
	if err != nil {
		return "", "", err
	}
	out, err := c.rpc.OpenDraw(ctx, &workerv1.OpenDrawRequest{Terms: text})
	return out.GetCommitment(), out.GetSeedNonce(), err
}
