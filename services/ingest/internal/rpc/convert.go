package rpc

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/rpc"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/request"
)

// defaultShards is the number of shards for up to 4,000 applications a second.
const defaultShards = 16

func toPromotion(in *ingestv1.CreatePromotionRequest) promotion.Promotion {
	p := promotion.Promotion{
		Title: in.GetTitle(), EventType: promotion.Type(in.GetEventType()), CapacityTotal: in.GetCapacityTotal(),
		OpensAt: millis(in.GetOpensAt()), ClosesAt: millis(in.GetClosesAt()), Shards: cmp.Or(int64(in.GetShards()), defaultShards),
		LotteryCutoffAt: millis(in.GetLotteryCutoffAt()), AnnouncedAt: millis(in.GetAnnouncedAt()),
	}
	p.Expect(rpc.ToExpected(in.GetExpected()))
	p.DropRejected = in.RecordRejected != nil && !in.GetRecordRejected()
	if p.EventType == promotion.Lottery && in.GetLotteryCutoffAt() == nil {
		p.LotteryCutoffAt = p.ClosesAt
	}
	return p
}

func toBeacon(in *ingestv1.Beacon) *fairdraw.Beacon {
	if in == nil {
		return nil
	}
	b := &fairdraw.Beacon{Chain: beacon.Chain{
		Scheme: in.GetScheme(), ChainHash: in.GetChainHash(), PublicKey: in.GetPublicKey(), Genesis: in.GetGenesis(), Period: in.GetPeriodSeconds(),
		GroupHash: in.GetGroupHash(), BeaconID: in.GetBeaconId(),
	}, DelaySeconds: int64(fairdraw.DefaultDelay / time.Second)}
	if in.DelaySeconds != nil {
		b.DelaySeconds = in.GetDelaySeconds()
	}
	return b
}

// millis returns a time in epoch milliseconds, 0 for an absent one.
func millis(t *timestamppb.Timestamp) int64 {
	if t == nil {
		return 0
	}
	return t.AsTime().UnixMilli()
}

func fromPromotion(p *promotion.Promotion, now int64) *ingestv1.Promotion {
	return &ingestv1.Promotion{
		EventId: p.EventID, Title: p.Title, EventType: string(p.EventType), CapacityTotal: p.CapacityTotal,
		OpensAt: timestamp(p.OpensAt), ClosesAt: timestamp(p.ClosesAt), LotteryCutoffAt: timestamp(p.LotteryCutoffAt),
		AnnouncedAt: timestamp(p.AnnouncedAt), Status: string(p.Status(now)), Paused: p.Paused,
		RecordRejected: new(!p.DropRejected), SpreadMs: p.Spread().Milliseconds(),
	}
}

func fromApplied(a *request.ApplyResult, now int64) *ingestv1.Applied {
	return &ingestv1.Applied{
		RequestId: a.Request.RequestID, Status: string(a.Request.Status), UiResult: string(a.Request.Status.UIResult()),
		UiPhase: rpc.Optional(string(a.Request.UIPhase(now))), Duplicate: a.Duplicate, Receipt: rpc.Optional(a.Receipt),
	}
}

// fromRequest converts a request for its user or for an operator. A user sees the error of an
// attempt only once the request has failed. Only operators see the text of the error.
func fromRequest(r *promotion.Request, now int64, operator bool) *ingestv1.EventRequest {
	out := &ingestv1.EventRequest{
		RequestId: r.RequestID, EventId: r.EventID, UserId: r.UserID, EventType: string(r.EventType), Status: string(r.Status),
		UiResult: string(r.Status.UIResult()), UiPhase: rpc.Optional(string(r.UIPhase(now))), ResultCode: rpc.Optional(string(r.ResultCode)),
		RequestedAt: r.RequestedAt, QueuedAt: rpc.Optional(r.QueuedAt), StartedAt: rpc.Optional(r.StartedAt), FinishedAt: rpc.Optional(r.FinishedAt),
		QueueSeq: rpc.Optional(r.QueueSeq), LotteryCutoffAt: rpc.Optional(r.LotteryCutoffAt), AnnouncedAt: rpc.Optional(r.AnnouncedAt),
		Place: rpc.Optional(r.Place),
	}
	if r.Status == promotion.FailedFinal || operator {
		out.FailureClass, out.ErrorCode = rpc.Optional(string(r.FailureClass)), rpc.Optional(r.ErrorCode)
	}
	if operator {
		out.ErrorMessage = rpc.Optional(r.ErrorMessage)
	}
	return out
}

func fromPage(page []promotion.Request, next string, now int64, operator bool) *ingestv1.ListRequestsResponse {
	out := &ingestv1.ListRequestsResponse{NextCursor: cursor.Text(next)}
	for i := range page {
		out.Items = append(out.Items, fromRequest(&page[i], now, operator))
	}
	return out
}

func timestamp(ms int64) *timestamppb.Timestamp {
	if ms == 0 {
		return nil
	}
	return timestamppb.New(time.UnixMilli(ms))
}
