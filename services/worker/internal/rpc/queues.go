package rpc

import (
	"context"
	"encoding/base64"
	"strings"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/deadletter"
)

// Queues are the queues whose dead letters are no requests.
type Queues interface {
	List(ctx context.Context, queue, cursor string, limit int) (page []deadletter.Letter, next string, err error)
	Redrive(ctx context.Context, queue string, ids []string) (deadletter.Result, error)
}

var _ Queues = (*deadletter.Queues)(nil)

func (s *Admin) ListQueueDeadLetters(ctx context.Context, in *workerv1.ListQueueDeadLettersRequest) (*workerv1.ListQueueDeadLettersResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	cursor, err := base64.RawURLEncoding.DecodeString(in.GetCursor())
	if err != nil {
		return nil, errs.ErrInvalidCursor
	}
	limit := int(in.GetLimit())
	if limit == 0 {
		limit = defaultLimit
	}
	page, next, err := s.queues.List(ctx, in.GetQueue(), string(cursor), limit)
	if err != nil {
		return nil, err
	}
	out := &workerv1.ListQueueDeadLettersResponse{NextCursor: base64.RawURLEncoding.EncodeToString([]byte(next))}
	for _, l := range page {
		item := &workerv1.QueueDeadLetter{
			Id: l.ID, Group: l.Group, Key: l.Key, Type: l.Type, Body: strings.ToValidUTF8(l.Body, ""), Error: l.Error, Origin: l.Origin, At: l.At,
		}
		if l.RedrivenAt != 0 {
			item.RedrivenAt = &l.RedrivenAt
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

func (s *Admin) RedriveQueue(ctx context.Context, in *workerv1.RedriveQueueRequest) (*workerv1.RedriveQueueResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	done, err := s.queues.Redrive(ctx, in.GetQueue(), in.GetIds())
	if err != nil {
		return nil, err
	}
	return &workerv1.RedriveQueueResponse{Redriven: done.Redriven, Refused: done.Refused, More: done.More}, nil
}
