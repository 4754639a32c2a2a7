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

// Operators is the gRPC server of VwrAdminService, which operators call.
type Operators struct {
	vwrv1.UnimplementedVwrAdminServiceServer

	admin   *room.Admin
	lobbies *lobby.Service
}

// NewOperators returns an Operators.
func NewOperators(a *room.Admin, l *lobby.Service) *Operators {
	return &Operators{admin: a, lobbies: l}
}

func (o *Operators) Activate(ctx context.Context, req *vwrv1.ActivateRequest) (*vwrv1.VwrStatus, error) {
	return o.runOperatorCall(ctx, req, func() (room.State, error) { return o.admin.Activate(ctx, req.GetEventId(), toSettingsChange(req)) })
}

func (o *Operators) Deactivate(ctx context.Context, req *vwrv1.DeactivateRequest) (*vwrv1.VwrStatus, error) {
	return o.runOperatorCall(ctx, req, func() (room.State, error) { return o.admin.Deactivate(ctx, req.GetEventId()) })
}

func (o *Operators) Advance(ctx context.Context, req *vwrv1.AdvanceRequest) (*vwrv1.VwrStatus, error) {
	return o.runOperatorCall(ctx, req, func() (room.State, error) { return o.admin.Advance(ctx, req.GetEventId(), req.GetBatchSize()) })
}

func (o *Operators) GetStatus(ctx context.Context, req *vwrv1.GetStatusRequest) (*vwrv1.VwrStatus, error) {
	return o.runOperatorCall(ctx, req, func() (room.State, error) { return o.admin.Status(ctx, req.GetEventId()) })
}

func toSettingsChange(req *vwrv1.ActivateRequest) room.SettingsChange {
	c := room.SettingsChange{Batch: req.Batch, MaxInFlight: req.MaxInFlight, ProofOfWork: req.ProofOfWork, SignIn: req.SignIn, Expected: req.Expected, AskRate: req.AskRate}
	if req.IntervalSeconds != nil {
		c.Interval = new(time.Duration(req.GetIntervalSeconds()) * time.Second)
	}
	if req.Inlet != nil {
		c.Inlet = new(room.Inlet(req.GetInlet()))
	}
	if req.Next != nil {
		c.Next = new(room.NextPage(req.GetNext()))
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
			GroupHash: b.GetGroupHash(), BeaconID: b.GetBeaconId(),
		}}
	}
	return c
}

// runOperatorCall checks the caller's role, calls do, and returns the state of the room. Figures of
// the lobby that cannot be read are left out, since do has taken effect.
func (o *Operators) runOperatorCall(ctx context.Context, req any, do func() (room.State, error)) (*vwrv1.VwrStatus, error) {
	if _, err := rpc.RequireRole(req, roleAdmin); err != nil {
		return nil, err
	}
	st, err := do()
	if err != nil {
		return nil, err
	}
	out := toStatus(st)
	if joined, phase, err := o.lobbies.ReadFigures(ctx, st.Counters); err == nil && phase != "" {
		out.LobbyEntries, out.LobbyPhase = &joined, new(string(phase))
	}
	return out, nil
}
