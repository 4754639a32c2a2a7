package rpc

import (
	"context"
	"encoding/json"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// DrawOpener opens draws (draw.Drawer).
type DrawOpener interface {
	Open(ctx context.Context, c fairdraw.Commitment) (text []byte, nonce fairdraw.Nonce, err error)
}

// Service serves the calls of the ingest service (WorkerService).
type Service struct {
	workerv1.UnimplementedWorkerServiceServer

	opener DrawOpener
}

// NewService returns the server of the ingest service's calls.
func NewService(opener DrawOpener) *Service { return &Service{opener: opener} }

func (s *Service) OpenDraw(ctx context.Context, in *workerv1.OpenDrawRequest) (*workerv1.OpenDrawResponse, error) {
	var terms fairdraw.Commitment
	if err := json.Unmarshal(in.GetTerms(), &terms); err != nil {
		return nil, errs.ErrInvalidRequest.Wrap(err)
	}
	text, nonce, err := s.opener.Open(ctx, terms)
	if err != nil {
		return nil, err
	}
	return &workerv1.OpenDrawResponse{Commitment: string(text), SeedNonce: fairdraw.Hash(nonce).String()}, nil
}
