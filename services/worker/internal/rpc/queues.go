package rpc

import (
	"cmp"
	"context"
	"strings"

	"urr.guru/pkg/rpc"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
	"urr.guru/services/worker/internal/deadletter"
)

// Queues lists and redrives the dead letters of queues that hold no requests.
type Queues interface {
	List(ctx context.Context, queue, cursor string, limit int) (page []deadletter.Letter, next string, err error)
	Redrive(ctx context.Context, queue string, ids []string) (deadletter.Result, error)
}

var _ Queues = (*deadletter.Queues)(nil)

func (s *Admin) ListQueueDeadLetters(ctx context.Context, in *workerv1.ListQueueDeadLettersRequest) (*workerv1.ListQueueDeadLettersResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	cursor, err := decodeCursor(in.GetCursor())
	if err != nil {
		return nil, err
	}
	page, next, err := s.queues.List(ctx, in.GetQueue(), cursor, cmp.Or(int(in.GetLimit()), defaultLimit))
	if err != nil {
		return nil, err
	}
	out := &workerv1.ListQueueDeadLettersResponse{NextCursor: encodeCursor(next)}
	for _, l := range page {
		out.Items = append(out.Items, &workerv1.QueueDeadLetter{
			Id: l.ID, Group: l.Group, Key: l.Key, Type: l.Type, Body: strings.ToValidUTF8(l.Body, ""), Error: l.Error, Origin: l.Origin, At: l.At,
			RedrivenAt: rpc.Optional(l.RedrivenAt),
		})
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
