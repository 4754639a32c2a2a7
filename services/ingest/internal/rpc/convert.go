package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/promotion"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/request"
)

func toPromotion(in *ingestv1.CreatePromotionRequest) promotion.Promotion {
	p := promotion.Promotion{
		Title: in.GetTitle(), EventType: promotion.Type(in.GetEventType()), CapacityTotal: in.GetCapacityTotal(),
		OpensAt: millis(in.GetOpensAt()), ClosesAt: millis(in.GetClosesAt()), Shards: max(1, int64(in.GetShards())),
		LotteryCutoffAt: millis(in.GetLotteryCutoffAt()), AnnouncedAt: millis(in.GetAnnouncedAt()),
	}
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
	}, DelaySeconds: int64(fairdraw.DefaultDelay / time.Second)}
	if in.DelaySeconds != nil {
		b.DelaySeconds = in.GetDelaySeconds()
	}
	return b
}

// millis is 0 for an absent time.
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
	}
}

func fromApplied(a *request.Applied, now int64) *ingestv1.Applied {
	return &ingestv1.Applied{
		RequestId: a.Request.RequestID, Status: string(a.Request.Status), UiResult: string(a.Request.Status.UIResult()),
		UiPhase: optional(string(a.Request.UIPhase(now))), Duplicate: a.Duplicate, Receipt: optional(a.Receipt),
	}
}

// fromRequest shows a request. What a failed attempt left is shown only once the request has failed,
// and its message to operators only.
func fromRequest(r *promotion.Request, now int64, operator bool) *ingestv1.EventRequest {
	out := &ingestv1.EventRequest{
		RequestId: r.RequestID, EventId: r.EventID, UserId: r.UserID, EventType: string(r.EventType), Status: string(r.Status),
		UiResult: string(r.Status.UIResult()), UiPhase: optional(string(r.UIPhase(now))), ResultCode: optional(string(r.ResultCode)),
		RequestedAt: r.RequestedAt, QueuedAt: known(r.QueuedAt), StartedAt: known(r.StartedAt), FinishedAt: known(r.FinishedAt),
		QueueSeq: optional(r.QueueSeq), LotteryCutoffAt: known(r.LotteryCutoffAt), AnnouncedAt: known(r.AnnouncedAt),
	}
	if r.Status == promotion.FailedFinal || operator {
		out.FailureClass, out.ErrorCode = optional(string(r.FailureClass)), optional(r.ErrorCode)
	}
	if operator {
		out.ErrorMessage = optional(r.ErrorMessage)
	}
	return out
}

func fromPage(page []promotion.Request, next string, now int64, operator bool) *ingestv1.ListRequestsResponse {
	out := &ingestv1.ListRequestsResponse{}
	if next != "" {
		out.NextCursor = encodeCursor(next)
	}
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

func known(ms int64) *int64 {
	if ms == 0 {
		return nil
	}
	return &ms
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
