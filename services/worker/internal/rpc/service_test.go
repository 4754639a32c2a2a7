package rpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/rpc/rpctest"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/rpc"
)

// opener is a fake DrawOpener that returns the event of the terms.
type opener struct{}

func (opener) Open(_ context.Context, c fairdraw.Commitment) (text []byte, nonce fairdraw.Nonce, err error) {
	if c.EventID == "silent" {
		return nil, nonce, errs.ErrBeaconUnavailable
	}
	return []byte(c.EventID), fairdraw.Nonce{1}, nil
}

func TestOpenDraw(t *testing.T) {
	t.Parallel()
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { workerv1.RegisterWorkerServiceServer(r, rpc.NewService(opener{})) })
	open := func(terms string) (*workerv1.OpenDrawResponse, error) {
		return workerv1.NewWorkerServiceClient(conn).OpenDraw(t.Context(), &workerv1.OpenDrawRequest{Terms: []byte(terms)})
	}
	got, err := open(`{"eventId": "promo"}`)
	require.NoError(t, err)
	require.Equal(t, "promo", got.GetCommitment())
	require.Equal(t, fairdraw.Hash{1}.String(), got.GetSeedNonce())
	_, err = open(`{"eventId": "silent"}`)
	require.ErrorIs(t, errs.From(err), errs.ErrBeaconUnavailable)
	for _, bad := range []string{"", "x", `{"winners": "3"}`} {
		_, err = open(bad)
		require.ErrorIs(t, errs.From(err), errs.ErrInvalidRequest, bad)
	}
}
