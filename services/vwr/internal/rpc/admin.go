package rpc

import (
	"context"
	"time"

	"urr.guru/pkg/rpc"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/room"
)

// roleAdmin is required by every operator's call; the gateway checks it too.
const roleAdmin = "admin"

// Operators implements VwrAdminService.
type Operators struct {
	vwrv1.UnimplementedVwrAdminServiceServer

	admin *room.Admin
}

// NewOperators returns the server of the operators' calls.
func NewOperators(a *room.Admin) *Operators { return &Operators{admin: a} }

// Activate starts a round, or changes the settings of the running one.
func (o *Operators) Activate(ctx context.Context, req *vwrv1.ActivateRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return answer(o.admin.Activate(ctx, req.GetEventId(), change(req)))
}

// Deactivate ends the round: everyone is admitted.
func (o *Operators) Deactivate(ctx context.Context, req *vwrv1.DeactivateRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return answer(o.admin.Deactivate(ctx, req.GetEventId()))
}

// Advance moves the serving counter manually.
func (o *Operators) Advance(ctx context.Context, req *vwrv1.AdvanceRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return answer(o.admin.Advance(ctx, req.GetEventId(), req.GetBatchSize()))
}

// GetStatus reads the event's counters and settings.
func (o *Operators) GetStatus(ctx context.Context, req *vwrv1.GetStatusRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	return answer(o.admin.Status(ctx, req.GetEventId()))
}

func change(req *vwrv1.ActivateRequest) room.Change {
	c := room.Change{Batch: req.Batch, MaxInFlight: req.MaxInFlight}
	if req.IntervalSeconds != nil {
		d := time.Duration(req.GetIntervalSeconds()) * time.Second
		c.Interval = &d
	}
	if req.Inlet != nil {
		inlet := room.Inlet(req.GetInlet())
		c.Inlet = &inlet
	}
	return c
}

func answer(st room.State, err error) (*vwrv1.VwrStatus, error) {
	if err != nil {
		return nil, err
	}
	return status(st), nil
}
