package rpc

import (
	"context"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/rpc"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// roleAdmin is required by every operator's call; the gateway checks it too.
const roleAdmin = "admin"

// Operators implements VwrAdminService.
type Operators struct {
	vwrv1.UnimplementedVwrAdminServiceServer

	admin   *room.Admin
	lobbies *lobby.Service
}

// NewOperators returns the server of the operators' calls.
func NewOperators(a *room.Admin, l *lobby.Service) *Operators {
	return &Operators{admin: a, lobbies: l}
}

// Activate starts a round, or changes the settings of the running one.
func (o *Operators) Activate(ctx context.Context, req *vwrv1.ActivateRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	st, err := o.admin.Activate(ctx, req.GetEventId(), change(req))
	return o.answer(ctx, st, err)
}

// Deactivate ends the round: everyone is admitted.
func (o *Operators) Deactivate(ctx context.Context, req *vwrv1.DeactivateRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	st, err := o.admin.Deactivate(ctx, req.GetEventId())
	return o.answer(ctx, st, err)
}

// Advance moves the serving counter manually.
func (o *Operators) Advance(ctx context.Context, req *vwrv1.AdvanceRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	st, err := o.admin.Advance(ctx, req.GetEventId(), req.GetBatchSize())
	return o.answer(ctx, st, err)
}

// GetStatus reads the event's counters and settings.
func (o *Operators) GetStatus(ctx context.Context, req *vwrv1.GetStatusRequest) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	st, err := o.admin.Status(ctx, req.GetEventId())
	return o.answer(ctx, st, err)
}

func change(req *vwrv1.ActivateRequest) room.Change {
	c := room.Change{Batch: req.Batch, MaxInFlight: req.MaxInFlight, ProofOfWork: req.ProofOfWork}
	if req.IntervalSeconds != nil {
		d := time.Duration(req.GetIntervalSeconds()) * time.Second
		c.Interval = &d
	}
	if req.Inlet != nil {
		inlet := room.Inlet(req.GetInlet())
		c.Inlet = &inlet
	}
	if req.Next != nil {
		c.Next = new(room.Next(req.GetNext()))
	}
	if req.Shards != nil {
		c.Shards = new(int(req.GetShards()))
	}
	if at := req.GetLobbyOpensAt(); at != nil {
		c.Lobby.OpensAt = at.AsTime()
	}
	if at := req.GetStartsAt(); at != nil {
		c.Lobby.StartsAt = at.AsTime()
	}
	if b := req.GetBeacon(); b != nil {
		c.Lobby.Beacon = &fairdraw.Beacon{Chain: beacon.Chain{
			Scheme: b.GetScheme(), ChainHash: b.GetChainHash(), PublicKey: b.GetPublicKey(), Genesis: b.GetGenesis(), Period: b.GetPeriodSeconds(),
		}}
	}
	return c
}

// answer adds the figures of the lobby. They are not worth an error: the act took effect.
func (o *Operators) answer(ctx context.Context, st room.State, err error) (*vwrv1.VwrStatus, error) {
	if err != nil {
		return nil, err
	}
	out := status(st)
	if joined, phase, err := o.lobbies.Figures(ctx, st.Counters); err == nil {
		if phase != "" {
			out.LobbyEntries, out.LobbyPhase = &joined, new(string(phase))
		}
	}
	return out, nil
}
