// Package rpc serves tier 1 over gRPC: the visitors' calls, which the gateway batches, the stream
// of counters for its cache, and the operators' calls.
package rpc

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/batchrpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// Visitors serves the visitors' calls over gRPC (VwrService).
type Visitors struct {
	vwrv1.UnimplementedVwrServiceServer

	rooms   *room.Service
	lobbies *lobby.Service
	cache   *room.StateCache
	log     *slog.Logger
}

// NewVisitors returns the server of the visitors' calls and of the stream of counters.
func NewVisitors(s *room.Service, l *lobby.Service, sc *room.StateCache, log *slog.Logger) *Visitors {
	return &Visitors{rooms: s, lobbies: l, cache: sc, log: log}
}

// Assign issues a position to each item's visitor. Items run in parallel, so that their store calls
// form one group.
func (v *Visitors) Assign(ctx context.Context, req *vwrv1.AssignRequest) (*vwrv1.AssignResponse, error) {
	failed := itemFailures{call: "assign"}
	defer failed.log(ctx, v.log)
	return &vwrv1.AssignResponse{Results: batchrpc.Each(ctx, req.GetItems(), v.assign, func(got room.AssignResult, err error) *vwrv1.AssignResult {
		if err != nil {
			return &vwrv1.AssignResult{Result: &vwrv1.AssignResult_Problem{Problem: failed.countFailure(err)}}
		}
		answered.WithLabelValues("assign", "position").Inc()
		return &vwrv1.AssignResult{Result: &vwrv1.AssignResult_Assigned{Assigned: fromAssignResult(got)}}
	})}, nil
}

func (v *Visitors) assign(ctx context.Context, it *vwrv1.AssignItem) (room.AssignResult, error) {
	return v.rooms.Assign(ctx, it.GetEventId(), visitorIDsOf(rpc.CallerFrom(it)))
}

func (v *Visitors) Check(ctx context.Context, req *vwrv1.CheckRequest) (*vwrv1.CheckResponse, error) {
	failed := itemFailures{call: "check"}
	defer failed.log(ctx, v.log)
	return &vwrv1.CheckResponse{Results: batchrpc.Each(ctx, req.GetItems(), v.check, func(got room.CheckResult, err error) *vwrv1.CheckResult {
		if err != nil {
			return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Problem{Problem: failed.countFailure(err)}}
		}
		answered.WithLabelValues("check", outcomeLabel(got)).Inc()
		return &vwrv1.CheckResult{Result: &vwrv1.CheckResult_Checked{Checked: fromCheckResult(got)}}
	})}, nil
}

func (v *Visitors) check(ctx context.Context, it *vwrv1.CheckItem) (room.CheckResult, error) {
	id, err := uuid.Parse(it.GetRequestId())
	if err != nil {
		return room.CheckResult{}, errs.ErrInvalidID.Wrap(err)
	}
	return v.rooms.Check(ctx, it.GetEventId(), visitorIDsOf(rpc.CallerFrom(it)), id, it.GetTicket())
}

func visitorIDsOf(c *commonv1.Caller) room.VisitorIDs {
	return room.VisitorIDs{Visitor: c.GetAnonId(), User: c.GetUserId()}
}

func outcomeLabel(c room.CheckResult) string {
	switch {
	case c.Admitted:
		return "admitted"
	case c.LobbyUntil != 0:
		return "lobby"
	default:
		return "waiting"
	}
}

func (v *Visitors) GetCounters(ctx context.Context, req *vwrv1.GetCountersRequest) (*vwrv1.GetCountersResponse, error) {
	states, err := v.rooms.ReadStates(ctx, req.GetEventIds())
	if err != nil {
		return nil, err
	}
	return &vwrv1.GetCountersResponse{Counters: fromStates(states)}, nil
}
