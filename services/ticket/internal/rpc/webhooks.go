package rpc

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/notice"
)

// Webhooks serves the RPCs for webhooks.
type Webhooks struct {
	ticketv1.UnimplementedWebhookServiceServer

	webhooks *notice.Webhooks
}

// NewWebhooks makes a server that calls s for webhooks.
func NewWebhooks(s *notice.Webhooks) *Webhooks { return &Webhooks{webhooks: s} }

func (s *Webhooks) PutWebhook(ctx context.Context, req *ticketv1.PutWebhookRequest) (*ticketv1.Webhook, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	w, err := s.webhooks.Put(ctx, notice.Webhook{Name: req.GetName(), URL: req.GetUrl(), Secret: req.GetSecret(), Types: req.GetTypes()})
	if err != nil {
		return nil, err
	}
	return fromWebhook(&w), nil
}

func (s *Webhooks) ListWebhooks(ctx context.Context, req *ticketv1.ListWebhooksRequest) (*ticketv1.ListWebhooksResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	list, err := s.webhooks.List(ctx)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListWebhooksResponse{Items: make([]*ticketv1.Webhook, len(list))}
	for i := range list {
		res.Items[i] = fromWebhook(&list[i])
	}
	return res, nil
}

func (s *Webhooks) DeleteWebhook(ctx context.Context, req *ticketv1.DeleteWebhookRequest) (*emptypb.Empty, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, s.webhooks.Delete(ctx, req.GetName())
}

func (s *Webhooks) ListDeliveries(ctx context.Context, req *ticketv1.ListDeliveriesRequest) (*ticketv1.ListDeliveriesResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.webhooks.Log(ctx, req.GetName(), pageLimit(req.GetLimit()), before)
	if err != nil {
		return nil, err
	}
	res := &ticketv1.ListDeliveriesResponse{Items: make([]*ticketv1.Delivery, len(list)), NextCursor: cursor.ID(next)}
	for i := range list {
		res.Items[i] = fromLogEntry(&list[i])
	}
	return res, nil
}

func (s *Webhooks) ReplayWebhook(ctx context.Context, req *ticketv1.ReplayWebhookRequest) (*ticketv1.ReplayWebhookResponse, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	var replay notice.Replay
	if req.GetSince() != nil {
		replay.Since = req.GetSince().AsTime()
	}
	for _, raw := range req.GetNoticeIds() {
		id, err := uuid.Parse(raw)
		if err != nil {
			return nil, errs.ErrInvalidID.WithFields(errs.Field{Path: "noticeIds", Message: "must be UUIDs"})
		}
		replay.IDs = append(replay.IDs, id)
	}
	queued, next, err := s.webhooks.Replay(ctx, req.GetName(), replay)
	if err != nil {
		return nil, err
	}
	return &ticketv1.ReplayWebhookResponse{Queued: int32(queued), NextSince: timestamp(next)}, nil //nolint:gosec // at most 1000
}

func fromWebhook(w *notice.Webhook) *ticketv1.Webhook {
	return &ticketv1.Webhook{
		Name: w.Name, Url: w.URL, Types: w.Types, CreatedAt: timestamppb.New(w.CreatedAt), UpdatedAt: timestamppb.New(w.UpdatedAt),
		FormerSecretUntil: timestamp(w.FormerUntil),
	}
}

func fromLogEntry(e *notice.LogEntry) *ticketv1.Delivery {
	return &ticketv1.Delivery{
		NoticeId: e.NoticeID.String(), Type: string(e.Type), EntityId: e.Entity, Status: string(e.State), Attempts: int32(e.Attempts), //nolint:gosec // a small number
		LastStatus: int32(e.Last.Status), LastError: e.Last.Error, CreatedAt: timestamp(e.CreatedAt), //nolint:gosec // an HTTP status
		NextAttemptAt: timestamp(e.NextAttempt), DeliveredAt: timestamp(e.DeliveredAt),
	}
}
