package rpc

import (
	"context"
	"time"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/rpc"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/request"
)

// PromotionReader reads promotions, their requests and their figures for operators.
type PromotionReader interface {
	Promotion(ctx context.Context, eventID string) (promotion.Promotion, error)
	ListOfEvent(ctx context.Context, p *promotion.Promotion, f request.Filter, cursor string, limit int) (page []promotion.Request, next string, err error)
	Figures(ctx context.Context, eventID string) (promotion.Counts, error)
	Capacity(ctx context.Context, eventID string) (c promotion.Capacity, limited bool, err error)
}

// Admin is the gRPC server of IngestAdminService, which operators call.
type Admin struct {
	ingestv1.UnimplementedIngestAdminServiceServer

	promotions *request.PromotionService
	draws      *request.Draws
	exporter   *request.Exporter
	operations PromotionReader
	now        func() time.Time
}

// NewAdmin returns an Admin.
func NewAdmin(
	promotions *request.PromotionService, draws *request.Draws, exporter *request.Exporter, operations PromotionReader, now func() time.Time,
) *Admin {
	return &Admin{promotions: promotions, draws: draws, exporter: exporter, operations: operations, now: now}
}

func (s *Admin) CreatePromotion(ctx context.Context, in *ingestv1.CreatePromotionRequest) (*ingestv1.Promotion, error) {
	user, err := rpc.RequireRole(in, admin)
	if err != nil {
		return nil, err
	}
	key, err := idempotency.New(user, "ingest.promotion", in.GetCaller().GetIdempotencyKey(), rpc.Fingerprint(in))
	if err != nil {
		return nil, err
	}
	p, err := s.promotions.Create(ctx, toPromotion(in), toBeacon(in.GetBeacon()), key)
	return s.answer(&p, err)
}

func (s *Admin) answer(p *promotion.Promotion, err error) (*ingestv1.Promotion, error) {
	if err != nil {
		return nil, err
	}
	return s.shown(p), nil
}

// shown returns a promotion in the form that operators see.
func (s *Admin) shown(p *promotion.Promotion) *ingestv1.Promotion {
	out := fromPromotion(p, s.now().UnixMilli())
	out.Expected = rpc.FromExpected(p.Expected)
	return out
}

func (s *Admin) SetExpected(ctx context.Context, in *ingestv1.SetExpectedRequest) (*ingestv1.Promotion, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	p, err := s.promotions.SetExpected(ctx, in.GetEventId(), rpc.ToExpected(in.GetExpected()))
	return s.answer(&p, err)
}

func (s *Admin) ClosePromotion(ctx context.Context, in *ingestv1.ClosePromotionRequest) (*ingestv1.Promotion, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	p, err := s.promotions.Close(ctx, in.GetEventId())
	return s.answer(&p, err)
}

func (s *Admin) PausePromotion(ctx context.Context, in *ingestv1.PausePromotionRequest) (*ingestv1.Promotion, error) {
	return s.setPaused(ctx, in, true)
}

func (s *Admin) ResumePromotion(ctx context.Context, in *ingestv1.ResumePromotionRequest) (*ingestv1.Promotion, error) {
	return s.setPaused(ctx, in, false)
}

func (s *Admin) setPaused(ctx context.Context, in interface{ GetEventId() string }, paused bool) (*ingestv1.Promotion, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	p, err := s.promotions.SetPaused(ctx, in.GetEventId(), paused)
	return s.answer(&p, err)
}

func (s *Admin) ListRequests(ctx context.Context, in *ingestv1.ListRequestsRequest) (*ingestv1.ListRequestsResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	after, err := cursor.ParseText(in.GetCursor(), cursorPrefix)
	if err != nil {
		return nil, err
	}
	p, err := s.operations.Promotion(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	view, err := s.draws.View(ctx, &p)
	if err != nil {
		return nil, err
	}
	f := request.Filter{Status: promotion.Status(in.GetStatus()), ResultCode: promotion.ResultCode(in.GetResultCode()), View: view}
	page, next, err := s.operations.ListOfEvent(ctx, &p, f, after, pageLimit(in.GetLimit()))
	if err != nil {
		return nil, err
	}
	return fromPage(page, next, s.now().UnixMilli(), true), nil
}

func (s *Admin) GetSummary(ctx context.Context, in *ingestv1.GetSummaryRequest) (*ingestv1.Summary, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	p, err := s.operations.Promotion(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	stored, err := s.operations.Figures(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	counts := s.draws.Figures(&p, stored)
	capacity, limited, err := s.operations.Capacity(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	out := &ingestv1.Summary{
		Promotion: s.shown(&p), Accepted: counts.Accepted, Unsettled: counts.Unsettled(),
	}
	for _, code := range promotion.ResultCodes() {
		if n := counts.Results[code]; n != 0 {
			out.Results = append(out.Results, &ingestv1.ResultCount{ResultCode: string(code), Requests: n})
		}
	}
	switch {
	case limited:
		out.CapacityRemaining = &capacity.Remaining
	case p.EventType == promotion.Lottery:
		out.Entries = &counts.Entered
	}
	return out, nil
}
