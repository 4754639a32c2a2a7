package rpc

import (
	"context"

	pkgrpc "urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/line"
)

// roleAdmin is the role required by operators' calls.
const roleAdmin = "admin"

// Operators is the gRPC server of QueueAdminService, by which operators see and control lines.
type Operators struct {
	queuev1.UnimplementedQueueAdminServiceServer

	lines OperatorCalls
}

func (o *Operators) SetThreshold(ctx context.Context, req *queuev1.SetThresholdRequest) (*queuev1.LineStatus, error) {
	return runOperatorCall("threshold", req, func() (*queuev1.LineStatus, error) {
		return fromOverview(o.lines.SetThreshold(ctx, req.GetEventId(), req.GetThreshold()))
	})
}

func (o *Operators) GetLine(ctx context.Context, req *queuev1.GetLineRequest) (*queuev1.LineStatus, error) {
	if _, err := pkgrpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return fromOverview(o.lines.ReadOverview(ctx, req.GetEventId()))
}

func (o *Operators) Pause(ctx context.Context, req *queuev1.PauseRequest) (*queuev1.LineStatus, error) {
	return runOperatorCall("pause", req, func() (*queuev1.LineStatus, error) { return fromOverview(o.lines.Pause(ctx, req.GetEventId())) })
}

func (o *Operators) Resume(ctx context.Context, req *queuev1.ResumeRequest) (*queuev1.LineStatus, error) {
	return runOperatorCall("resume", req, func() (*queuev1.LineStatus, error) { return fromOverview(o.lines.Resume(ctx, req.GetEventId())) })
}

func (o *Operators) Revoke(ctx context.Context, req *queuev1.RevokeRequest) (*queuev1.RevokeResponse, error) {
	return runOperatorCall("revoke", req, func() (*queuev1.RevokeResponse, error) {
		revoked, err := o.lines.Revoke(ctx, req.GetEventId(), req.GetUserId())
		return &queuev1.RevokeResponse{EventId: req.GetEventId(), UserId: req.GetUserId(), Revoked: revoked}, err
	})
}

func (o *Operators) Block(ctx context.Context, req *queuev1.BlockRequest) (*queuev1.BlockResponse, error) {
	return runOperatorCall("block", req, func() (*queuev1.BlockResponse, error) {
		durable, err := o.lines.Block(ctx, req.GetEventId(), req.GetUserId())
		return &queuev1.BlockResponse{EventId: req.GetEventId(), UserId: req.GetUserId(), Blocked: true, Durable: durable}, err
	})
}

func (o *Operators) Unblock(ctx context.Context, req *queuev1.UnblockRequest) (*queuev1.UnblockResponse, error) {
	return runOperatorCall("unblock", req, func() (*queuev1.UnblockResponse, error) {
		durable, err := o.lines.Unblock(ctx, req.GetEventId(), req.GetUserId())
		return &queuev1.UnblockResponse{EventId: req.GetEventId(), UserId: req.GetUserId(), Durable: durable}, err
	})
}

// runOperatorCall checks the caller's role, calls do, and counts the call by its result.
func runOperatorCall[R any](name string, req any, do func() (*R, error)) (*R, error) {
	if _, err := pkgrpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	res, err := do()
	countOperatorCall(name, err)
	if err != nil {
		return nil, err
	}
	return res, nil
}

func fromOverview(o line.LineOverview, err error) (*queuev1.LineStatus, error) {
	if err != nil {
		return nil, err
	}
	res := &queuev1.LineStatus{
		EventId: o.EventID, Waiting: o.Waiting, Parked: o.Parked, Active: o.Active, Threshold: o.Threshold,
		AdmittedPerMinute: o.AdmittedPerMinute, Epoch: o.Epoch, Paused: len(o.Pauses) > 0,
		Durable: o.Durable, WaitingGeneral: o.WaitingGeneral,
	}
	for _, p := range o.Pauses {
		res.Pauses = append(res.Pauses, string(p))
	}
	if o.RecoveryEndsAt > 0 {
		res.RecoveryEndsAt = &o.RecoveryEndsAt
	}
	if sale := o.Sale.String(); sale != "" {
		res.SaleStatus = &sale
	}
	return res, nil
}
