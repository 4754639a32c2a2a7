package worker_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/rpc/rpctest"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/ingest/internal/worker"
)

// server is a fake worker service that keeps the terms of the draw that it was asked to open.
type server struct {
	workerv1.UnimplementedWorkerServiceServer

	terms fairdraw.Commitment
}

func (s *server) OpenDraw(_ context.Context, in *workerv1.OpenDrawRequest) (*workerv1.OpenDrawResponse, error) {
	if err := json.Unmarshal(in.GetTerms(), &s.terms); err != nil {
		return nil, err
	}
	if s.terms.EventID == "silent" {
		return nil, errs.ErrBeaconUnavailable
	}
	return &workerv1.OpenDrawResponse{Commitment: "terms", SeedNonce: "nonce"}, nil
}

func TestOpenDraw(t *testing.T) {
	t.Parallel()
	s := &server{}
	client := worker.New(rpctest.Serve(t, func(r grpc.ServiceRegistrar) { workerv1.RegisterWorkerServiceServer(r, s) }))
	terms := fairdraw.Commitment{
		Algorithm: fairdraw.AlgorithmDraw, EventID: "promo", Winners: 3, CutoffAt: 5, AnnouncedAt: 6, ReceiptKey: fairdraw.Hash{7},
		Beacon: &fairdraw.Beacon{Chain: beacon.Quicknet(), DelaySeconds: 600},
	}
	commitment, nonce, err := client.OpenDraw(t.Context(), terms)
	require.NoError(t, err)
	require.Equal(t, []string{"terms", "nonce"}, []string{commitment, nonce})
	require.Equal(t, terms, s.terms)
	terms.EventID = "silent"
	_, _, err = client.OpenDraw(t.Context(), terms)
	require.ErrorIs(t, errs.From(err), errs.ErrBeaconUnavailable)
}
