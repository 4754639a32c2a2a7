// Package rpc serves tier 1 over gRPC: visitors' calls, which the gateway batches, the stream of
// counters for the gateway's cache, and operators' calls.
package rpc

import (
	"context"
	"log/slog"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/batchrpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// Visitors is the gRPC server of VwrService, for visitors' calls and the stream of counters.
type Visitors struct {
	vwrv1.UnimplementedVwrServiceServer

	rooms   *room.Service
	lobbies *lobby.Service
	cache   *room.StateCache
	log     *slog.Logger
}

// NewVisitors returns a Visitors.
func NewVisitors(s *room.Service, l *lobby.Service, sc *room.StateCache, log *slog.Logger) *Visitors {
	return &Visitors{rooms: s, lobbies: l, cache: sc, log: log}
}

// Valid reports whether m is a valid request for positions or of a poll. It replaces the slower
// generic validation.
func (v *Visitors) Valid(m proto.Message) bool {
	switch req := m.(type) {
	case *vwrv1.AssignRequest:
		return batchrpc.ValidItems(req.GetItems(), func(it *vwrv1.AssignItem) bool { return ids.ValidEventID(it.GetEventId()) })
	case *vwrv1.CheckRequest:
		return batchrpc.ValidItems(req.GetItems(), func(it *vwrv1.CheckItem) bool {
			return ids.ValidEventID(it.GetEventId()) && len(it.GetRequestId()) == uuidLength && uuid.Validate(it.GetRequestId()) == nil
		})
	default:
		return false
	}
}

// uuidLength is the length of a UUID in the only form that is valid in a request.
const uuidLength = 36

// Assign issues a position to each item's visitor, in their order. It handles the items of one
// event together. (The gateway sends only items of one event.)
func (v *Visitors) Assign(ctx context.Context, req *vwrv1.AssignRequest) (*vwrv1.AssignResponse, error) {
	failed, items := itemFailures{call: "assign"}, req.GetItems()
	defer failed.log(ctx, v.log)
	byEvent := make(map[string][]int, 1)
	for i, it := range items {
		byEvent[it.GetEventId()] = append(byEvent[it.GetEventId()], i)
	}
	results := make([]*vwrv1.AssignResult, len(items))
	for eventID, indexes := range byEvent {
		callers := make([]room.VisitorIDs, len(indexes))
		for n, i := range indexes {
			callers[n] = visitorIDsOf(rpc.CallerFrom(items[i]))
		}
		for n, got := range v.rooms.Assign(ctx, eventID, callers) {
			results[indexes[n]] = toAssignResult(got, &failed)
		}
	}
	return &vwrv1.AssignResponse{Results: results}, nil
}

func toAssignResult(got room.Outcome[room.AssignResult], failed *itemFailures) *vwrv1.AssignResult {
	if got.Err != nil {
		return &vwrv1.AssignResult{Result: &vwrv1.AssignResult_Problem{Problem: failed.countFailure(got.Err)}}
	}
	answered.WithLabelValues("assign", "position").Inc()
	return &vwrv1.AssignResult{Result: &vwrv1.AssignResult_Assigned{Assigned: fromAssignResult(got.Value)}}
}

func (v *Visitors) Check(ctx context.Context, req *vwrv1.CheckRequest) (*vwrv1.CheckResponse, error) {
	failed := itemFailures{call: "check"}
	defer failed.log(ctx, v.log)
	return &vwrv1.CheckResponse{Results: batchrpc.PerItem(ctx, req.GetItems(), v.check, func(got room.CheckResult, err error) *vwrv1.CheckResult {
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
