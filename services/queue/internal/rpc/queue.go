// Package rpc serves, over gRPC, the calls on lines by visitors, operators and gateways.
package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/ids"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/batchrpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/line"
)

// VisitorCalls are the calls that gateways make on behalf of visitors.
type VisitorCalls interface {
	Check(ctx context.Context, reqs []line.PlaceRequest) []line.PlaceAnswer
	Status(ctx context.Context, reqs []line.PlaceRequest) []line.PlaceAnswer
	Heartbeat(ctx context.Context, reqs []line.PlaceRequest) []line.PlaceAnswer
	VerifySlots(ctx context.Context, slots []line.SlotQuery) []line.SlotVerdict
	Leave(ctx context.Context, eventID, userID string, e *line.EntryClaims) error
}

// OperatorCalls are the calls that gateways make on behalf of operators.
type OperatorCalls interface {
	SetThreshold(ctx context.Context, eventID string, threshold int64) (line.LineOverview, error)
	ReadOverview(ctx context.Context, eventID string) (line.LineOverview, error)
	Pause(ctx context.Context, eventID string) (line.LineOverview, error)
	Resume(ctx context.Context, eventID string) (line.LineOverview, error)
	Revoke(ctx context.Context, eventID, userID string) (bool, error)
	Block(ctx context.Context, eventID, userID string) (durable bool, err error)
	Unblock(ctx context.Context, eventID, userID string) (durable bool, err error)
}

// GatewayCalls are the calls that gateways and the vwr service (tier 1) make for themselves.
type GatewayCalls interface {
	ReadLoad(ctx context.Context, eventID string) (line.LineLoad, error)
	SaleClosed(ctx context.Context, eventID string) (bool, error)
	WatchLines(ctx context.Context, send func(lines []line.LineUpdate, snapshot bool) error) error
}

// Visitors is the gRPC server of QueueService, for visitors, gateways and the vwr service.
type Visitors struct {
	queuev1.UnimplementedQueueServiceServer

	line    VisitorCalls
	control GatewayCalls
	stop    <-chan struct{}
}

var _ pkgrpc.Prevalidator = (*Visitors)(nil)

// Register registers QueueService and QueueAdminService on s. Closing stop ends the streams to
// gateways, so that they do not delay a shutdown.
func Register(s grpc.ServiceRegistrar, l VisitorCalls, c GatewayCalls, o OperatorCalls, stop <-chan struct{}) {
	queuev1.RegisterQueueServiceServer(s, &Visitors{line: l, control: c, stop: stop})
	queuev1.RegisterQueueAdminServiceServer(s, &Operators{lines: o})
}

// Valid reports whether m is a valid request of a poll. It replaces the slower generic validation.
func (v *Visitors) Valid(m proto.Message) bool {
	req, ok := m.(*queuev1.LineRequest)
	return ok && batchrpc.ValidItems(req.GetItems(), func(it *queuev1.LineItem) bool { return ids.ValidEventID(it.GetEventId()) })
}

func (v *Visitors) Check(ctx context.Context, req *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	return answerItems(ctx, "check", req, v.line.Check), nil
}

func (v *Visitors) Status(ctx context.Context, req *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	return answerItems(ctx, "status", req, v.line.Status), nil
}

// Heartbeat does what Status does. Its callers do not have the users' e-mails and claims.
func (v *Visitors) Heartbeat(ctx context.Context, req *queuev1.LineRequest) (*queuev1.LineResponse, error) {
	return answerItems(ctx, "heartbeat", req, v.line.Heartbeat), nil
}

// answerItems calls do with the items that have a user, and returns the results of all items in
// order. Items without a user fail.
func answerItems(
	ctx context.Context, call string, req *queuev1.LineRequest, do func(context.Context, []line.PlaceRequest) []line.PlaceAnswer,
) *queuev1.LineResponse {
	return &queuev1.LineResponse{Results: batchrpc.PerBatch(ctx, req.GetItems(), toRequest, do, func(a line.PlaceAnswer, err error) *queuev1.LineResult {
		if err != nil {
			a.Err = err
		}
		countAnswer(call, a)
		return fromAnswer(a)
	})}
}

func (v *Visitors) Leave(ctx context.Context, req *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
	user, err := pkgrpc.UserFrom(req)
	if err != nil {
		return nil, err
	}
	if err := v.line.Leave(ctx, req.GetEventId(), user, toEntry(req.GetEntry())); err != nil {
		return nil, err
	}
	return &queuev1.LeaveResponse{}, nil
}

func (v *Visitors) VerifySlots(ctx context.Context, req *queuev1.VerifySlotsRequest) (*queuev1.VerifySlotsResponse, error) {
	return &queuev1.VerifySlotsResponse{Results: batchrpc.PerBatch(ctx, req.GetItems(), toSlotQuery, v.line.VerifySlots, fromSlotVerdict)}, nil
}

// watchInterval is the minimum time between two messages of a stream.
const watchInterval = 100 * time.Millisecond

func (v *Visitors) WatchLines(_ *queuev1.WatchLinesRequest, stream grpc.ServerStreamingServer[queuev1.WatchLinesResponse]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-v.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	watchers.Inc()
	defer watchers.Dec()
	// The stream ends when the gateway disconnects, its connection reaches its maximum age, or this
	// process stops. None of these is an error.
	_ = v.control.WatchLines(ctx, func(changed []line.LineUpdate, snapshot bool) error {
		if err := stream.Send(&queuev1.WatchLinesResponse{Lines: fromLineUpdates(changed), Snapshot: snapshot}); err != nil {
			return err
		}
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
		}
		return nil
	})
	return nil
}

func (v *Visitors) GetSale(ctx context.Context, req *queuev1.GetSaleRequest) (*queuev1.GetSaleResponse, error) {
	closed, err := v.control.SaleClosed(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &queuev1.GetSaleResponse{Closed: closed}, nil
}

func (v *Visitors) GetLoad(ctx context.Context, req *queuev1.GetLoadRequest) (*queuev1.GetLoadResponse, error) {
	l, err := v.control.ReadLoad(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &queuev1.GetLoadResponse{Waiting: l.Waiting, Active: l.Active, Parked: l.Parked, Arrived: l.Arrived}, nil
}
