// Package rpc serves operators over gRPC.
package rpc

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/rpc"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

const (
	admin        = "admin"
	defaultLimit = 20
	maxRedrives  = 100 // of one call
	maxPages     = 20  // of dead letters that one call looks through
)

// Store reads dead letters and begins failed requests anew.
type Store interface {
	DeadLetters(ctx context.Context, after string, limit int) (page []promotion.DeadLetter, next string, err error)
	MarkRedriven(ctx context.Context, l promotion.DeadLetter) error
	Redrive(ctx context.Context, id string) (promotion.Request, error)
}

// Sender puts a request in the queue.
type Sender interface {
	Send(ctx context.Context, r promotion.Request) error
}

// Drawer changes draws as operators request it.
type Drawer interface {
	Submit(ctx context.Context, event, value, signature string) (promotion.Draw, error)
	Void(ctx context.Context, event string) (promotion.Draw, error)
}

// Admin implements WorkerAdminService.
type Admin struct {
	workerv1.UnimplementedWorkerAdminServiceServer

	store  Store
	sender Sender
	drawer Drawer
	queues Queues
	log    *slog.Logger
}

// NewAdmin makes the server of operators' RPCs.
func NewAdmin(store Store, sender Sender, drawer Drawer, log *slog.Logger) *Admin {
	return &Admin{store: store, sender: sender, drawer: drawer, log: log}
}

// WithQueues also serves the dead letters of the queues q, and returns s.
func (s *Admin) WithQueues(q Queues) *Admin {
	s.queues = q
	return s
}

func (s *Admin) ListDeadLetters(ctx context.Context, in *workerv1.ListDeadLettersRequest) (*workerv1.ListDeadLettersResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	after, err := decodeCursor(in.GetCursor())
	if err != nil {
		return nil, err
	}
	page, next, err := s.store.DeadLetters(ctx, after, cmp.Or(int(in.GetLimit()), defaultLimit))
	if err != nil {
		return nil, err
	}
	out := &workerv1.ListDeadLettersResponse{NextCursor: encodeCursor(next)}
	for _, l := range page {
		out.Items = append(out.Items, &workerv1.DeadLetter{
			RequestId: l.RequestID, EventId: l.EventID, Body: l.Body, ErrorCode: l.ErrorCode, ErrorMessage: l.ErrorMessage, At: l.At,
			RedrivenAt: rpc.Optional(l.RedrivenAt),
		})
	}
	return out, nil
}

func encodeCursor(sortKey string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(sortKey))
}

func decodeCursor(cursor string) (string, error) {
	sortKey, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", errs.ErrInvalidCursor
	}
	return string(sortKey), nil
}

// RedriveRequests reads the dead letters from the latest on, since each is marked whose request is
// redriven.
func (s *Admin) RedriveRequests(ctx context.Context, in *workerv1.RedriveRequestsRequest) (*workerv1.RedriveRequestsResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, id := range in.GetIds() {
		wanted[id] = true
	}
	out := &workerv1.RedriveRequestsResponse{}
	tried, after := map[string]bool{}, ""
	for range maxPages {
		page, next, err := s.store.DeadLetters(ctx, after, maxRedrives)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if l.RequestID == "" || l.RedrivenAt != 0 || tried[l.RequestID] || len(wanted) > 0 && !wanted[l.RequestID] {
				continue
			}
			if len(out.GetRedriven()) == maxRedrives {
				out.More = true
				return out, nil
			}
			tried[l.RequestID] = true
			redriven, err := s.redrive(ctx, l.RequestID, out)
			if err != nil {
				return nil, err
			}
			if redriven {
				err = s.store.MarkRedriven(ctx, l)
			}
			if err != nil {
				return nil, err
			}
		}
		if after = next; after == "" || len(wanted) > 0 && len(tried) == len(wanted) {
			break
		}
	}
	out.More = after != "" && len(wanted) == 0
	for _, id := range in.GetIds() {
		if !tried[id] { // a request that failed without a dead letter
			tried[id] = true
			if _, err := s.redrive(ctx, id, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// redrive begins a request anew and sends it. If the sending fails, ingest finds the marker and
// sends it.
func (s *Admin) redrive(ctx context.Context, id string, out *workerv1.RedriveRequestsResponse) (redriven bool, err error) {
	r, err := s.store.Redrive(ctx, id)
	if errors.Is(err, promotion.ErrNotRedrivable) {
		out.Refused = append(out.Refused, id)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	out.Redriven = append(out.Redriven, id)
	if err := s.sender.Send(ctx, r); err != nil {
		s.log.WarnContext(ctx, "redriven request not sent yet", "request_id", id, "error", err)
	}
	return true, nil
}
