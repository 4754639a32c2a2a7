package rpc

import (
	"context"
	"encoding/json"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/fairdraw"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/draw"
)

// Service implements WorkerService.
type Service struct {
	workerv1.UnimplementedWorkerServiceServer

	drawer *draw.Drawer
}

// NewService serves ingest.
func NewService(drawer *draw.Drawer) *Service { return &Service{drawer: drawer} }

func (s *Service) OpenDraw(ctx context.Context, in *workerv1.OpenDrawRequest) (*workerv1.OpenDrawResponse, error) {
	var terms fairdraw.Commitment
	if err := json.Unmarshal(in.GetTerms(), &terms); err != nil {
		return nil, errs.ErrInvalidRequest.Wrap(err)
	}
	text, nonce, err := s.drawer.Open(ctx, terms)
	if err != nil {
		return nil, err
	}
	return &workerv1.OpenDrawResponse{Commitment: string(text), SeedNonce: fairdraw.Hash(nonce).String()}, nil
}
