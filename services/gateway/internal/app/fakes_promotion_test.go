package app_test

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/batchrpc"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// fakeIngest has every promotion except "absent".
type fakeIngest struct {
	ingestv1.UnimplementedIngestServiceServer
	ingestv1.UnimplementedIngestAdminServiceServer
	callLog

	cut     atomic.Bool                      // true: streams break off after their first part
	applied atomic.Pointer[ingestv1.Applied] // the answer of Apply; nil: a queued first-come request
}

// soldOut is a sold-out promotion to which no user has applied before.
const soldOut = "sold-out"

// awaited and ended are promotions with a crowd, of which the first opens in a minute.
const (
	awaited = "awaited"
	ended   = "ended"
)

func promotionOf(event string) (*ingestv1.Promotion, error) {
	if event == "absent" {
		return nil, errs.ErrPromotionNotFound
	}
	p := &ingestv1.Promotion{EventId: event, Title: "Shoes", EventType: "FIRST_COME", CapacityTotal: 5, Status: "Open"}
	if event == awaited || event == ended {
		p.Status, p.OpensAt, p.SpreadMs = map[string]string{awaited: "Scheduled", ended: "Closed"}[event], timestamppb.New(start.Add(time.Minute)), 60_000
	}
	return p, nil
}

func (f *fakeIngest) Apply(ctx context.Context, in *ingestv1.ApplyRequest) (*ingestv1.ApplyResponse, error) {
	for _, item := range in.GetItems() {
		f.add("Apply", item.GetCaller(), item)
	}
	return &ingestv1.ApplyResponse{Results: batchrpc.PerItem(ctx, in.GetItems(), f.apply, func(a *ingestv1.Applied, err error) *ingestv1.ApplyResult {
		if err != nil {
			return &ingestv1.ApplyResult{Result: &ingestv1.ApplyResult_Problem{Problem: errs.ToProblem(err)}}
		}
		return &ingestv1.ApplyResult{Result: &ingestv1.ApplyResult_Applied{Applied: a}}
	})}, nil
}

func (f *fakeIngest) apply(_ context.Context, item *ingestv1.ApplyItem) (*ingestv1.Applied, error) {
	if _, err := promotionOf(item.GetEventId()); err != nil {
		return nil, err
	}
	if item.GetEventId() == soldOut {
		return nil, errs.ErrSoldOut
	}
	if a := f.applied.Load(); a != nil {
		return a, nil
	}
	return &ingestv1.Applied{RequestId: requestID, Status: "QUEUED", UiResult: "PENDING"}, nil
}

func (f *fakeIngest) GetPromotion(_ context.Context, in *ingestv1.GetPromotionRequest) (*ingestv1.Promotion, error) {
	f.add("GetPromotion", nil, in)
	return promotionOf(in.GetEventId())
}

func (f *fakeIngest) ListPromotions(_ context.Context, in *ingestv1.ListPromotionsRequest) (*ingestv1.ListPromotionsResponse, error) {
	f.add("ListPromotions", nil, in)
	return &ingestv1.ListPromotionsResponse{}, nil
}

func (f *fakeIngest) request(name, event string, who *commonv1.Caller) (*ingestv1.EventRequest, error) {
	f.add(name, who, nil)
	return &ingestv1.EventRequest{RequestId: requestID, EventId: event, UserId: who.GetUserId(), Status: "QUEUED", UiResult: "PENDING"}, nil
}

func (f *fakeIngest) GetMyRequest(_ context.Context, in *ingestv1.GetMyRequestRequest) (*ingestv1.EventRequest, error) {
	return f.request("GetMyRequest", in.GetEventId(), in.GetCaller())
}

func (f *fakeIngest) GetRequest(_ context.Context, in *ingestv1.GetRequestRequest) (*ingestv1.EventRequest, error) {
	return f.request("GetRequest", calm, in.GetCaller())
}

func (f *fakeIngest) GetTimeline(_ context.Context, in *ingestv1.GetTimelineRequest) (*ingestv1.Timeline, error) {
	f.add("GetTimeline", in.GetCaller(), in)
	return &ingestv1.Timeline{Items: []*ingestv1.StatusChange{{ToStatus: "RECEIVED", OccurredAt: 1}}}, nil
}

func (f *fakeIngest) ListMyRequests(_ context.Context, in *ingestv1.ListMyRequestsRequest) (*ingestv1.ListRequestsResponse, error) {
	f.add("ListMyRequests", in.GetCaller(), in)
	return &ingestv1.ListRequestsResponse{}, nil
}

func (f *fakeIngest) CreatePromotion(_ context.Context, in *ingestv1.CreatePromotionRequest) (*ingestv1.Promotion, error) {
	f.add("CreatePromotion", in.GetCaller(), in)
	return promotionOf(requestID)
}

func (f *fakeIngest) ClosePromotion(_ context.Context, in *ingestv1.ClosePromotionRequest) (*ingestv1.Promotion, error) {
	f.add("ClosePromotion", in.GetCaller(), in)
	return promotionOf(in.GetEventId())
}

func (f *fakeIngest) PausePromotion(_ context.Context, in *ingestv1.PausePromotionRequest) (*ingestv1.Promotion, error) {
	f.add("PausePromotion", in.GetCaller(), in)
	return promotionOf(in.GetEventId())
}

func (f *fakeIngest) ResumePromotion(_ context.Context, in *ingestv1.ResumePromotionRequest) (*ingestv1.Promotion, error) {
	f.add("ResumePromotion", in.GetCaller(), in)
	return promotionOf(in.GetEventId())
}

func (f *fakeIngest) SetExpected(_ context.Context, in *ingestv1.SetExpectedRequest) (*ingestv1.Promotion, error) {
	f.add("SetExpected", in.GetCaller(), in)
	return promotionOf(in.GetEventId())
}

func (f *fakeIngest) ListRequests(_ context.Context, in *ingestv1.ListRequestsRequest) (*ingestv1.ListRequestsResponse, error) {
	f.add("ListRequests", in.GetCaller(), in)
	return &ingestv1.ListRequestsResponse{}, nil
}

func (f *fakeIngest) GetSummary(_ context.Context, in *ingestv1.GetSummaryRequest) (*ingestv1.Summary, error) {
	f.add("GetSummary", in.GetCaller(), in)
	p, err := promotionOf(in.GetEventId())
	return &ingestv1.Summary{Promotion: p}, err
}

// fakeWorker has no dead letters, and redrives every request.
type fakeWorker struct {
	workerv1.UnimplementedWorkerAdminServiceServer
	callLog
}

func (f *fakeWorker) ListAdmissionDeadLetters(_ context.Context, in *workerv1.ListAdmissionDeadLettersRequest) (*workerv1.ListAdmissionDeadLettersResponse, error) {
	f.add("ListAdmissionDeadLetters", in.GetCaller(), in)
	return &workerv1.ListAdmissionDeadLettersResponse{}, nil
}

func (f *fakeWorker) RedriveAdmissions(_ context.Context, in *workerv1.RedriveAdmissionsRequest) (*workerv1.RedriveAdmissionsResponse, error) {
	f.add("RedriveAdmissions", in.GetCaller(), in)
	return &workerv1.RedriveAdmissionsResponse{Redriven: in.GetIds()}, nil
}

func (f *fakeWorker) ListDeadLetters(_ context.Context, in *workerv1.ListDeadLettersRequest) (*workerv1.ListDeadLettersResponse, error) {
	f.add("ListDeadLetters", in.GetCaller(), in)
	return &workerv1.ListDeadLettersResponse{}, nil
}

func (f *fakeWorker) RedriveRequests(_ context.Context, in *workerv1.RedriveRequestsRequest) (*workerv1.RedriveRequestsResponse, error) {
	f.add("RedriveRequests", in.GetCaller(), in)
	return &workerv1.RedriveRequestsResponse{Redriven: in.GetIds()}, nil
}
