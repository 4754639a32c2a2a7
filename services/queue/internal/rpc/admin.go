package rpc

import (
	"context"

	pkgrpc "urr.guru/pkg/rpc"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// roleAdmin is the role required by operators' calls.
const roleAdmin = "admin"

// Operators implements queuev1.QueueAdminServiceServer.
type Operators struct {
	queuev1.UnimplementedQueueAdminServiceServer

	control Control
}

// SetThreshold implements queuev1.QueueAdminServiceServer.
func (o *Operators) SetThreshold(ctx context.Context, req *queuev1.SetThresholdRequest) (*queuev1.LineStatus, error) {
	if _, err := pkgrpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	l, err := o.control.SetThreshold(ctx, req.GetEventId(), req.GetThreshold())
	if err != nil {
		return nil, err
	}
	return overview(l), nil
}

// GetLine implements queuev1.QueueAdminServiceServer.
func (o *Operators) GetLine(ctx context.Context, req *queuev1.GetLineRequest) (*queuev1.LineStatus, error) {
	if _, err := pkgrpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	l, err := o.control.Line(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return overview(l), nil
}
