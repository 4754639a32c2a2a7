package rpc

import (
	"context"

	"urr.guru/pkg/promotion"
	"urr.guru/pkg/rpc"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

func (s *Admin) SubmitBeacon(ctx context.Context, in *workerv1.SubmitBeaconRequest) (*workerv1.DrawState, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	d, err := s.drawer.SubmitBeacon(ctx, in.GetEventId(), in.GetValue(), in.GetSignature())
	if err != nil {
		return nil, err
	}
	return fromDraw(&d), nil
}

func (s *Admin) VoidPromotion(ctx context.Context, in *workerv1.VoidPromotionRequest) (*workerv1.DrawState, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	d, err := s.drawer.Void(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	return fromDraw(&d), nil
}

func fromDraw(d *promotion.Draw) *workerv1.DrawState {
	out := &workerv1.DrawState{EventId: d.EventID, Phase: string(d.Phase), VoidedAt: rpc.Optional(d.VoidedAt)}
	if d.Beacon != nil {
		out.Round = &d.Beacon.Round
	}
	return out
}
