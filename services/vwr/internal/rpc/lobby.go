package rpc

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/batchrpc"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/lobby"
)

// Join enters each item's user in the lobby of an event.
func (v *Visitors) Join(ctx context.Context, req *vwrv1.JoinRequest) (*vwrv1.JoinResponse, error) {
	failed := itemFailures{call: "join"}
	defer failed.log(ctx, v.log)
	return &vwrv1.JoinResponse{Results: batchrpc.Each(ctx, req.GetItems(), v.join, func(got lobby.Joined, err error) *vwrv1.JoinResult {
		if err != nil {
			return &vwrv1.JoinResult{Result: &vwrv1.JoinResult_Problem{Problem: failed.problem(err)}}
		}
		answered.WithLabelValues("join", "joined").Inc()
		return &vwrv1.JoinResult{Result: &vwrv1.JoinResult_Joined{Joined: joined(got)}}
	})}, nil
}

func (v *Visitors) join(ctx context.Context, it *vwrv1.JoinItem) (lobby.Joined, error) {
	user := rpc.CallerFrom(it).GetUserId()
	if user == "" {
		return lobby.Joined{}, errs.ErrUnauthenticated
	}
	return v.lobbies.Join(ctx, it.GetEventId(), user)
}

func joined(j lobby.Joined) *vwrv1.Joined {
	return &vwrv1.Joined{
		RequestId: j.RequestID.String(), OpensAt: j.StartsAt, ClosesAt: j.ClosesAt, Ticket: j.Ticket, Receipt: j.Receipt,
	}
}

// GetShuffle returns the published document of the event's latest lobby.
func (v *Visitors) GetShuffle(ctx context.Context, req *vwrv1.GetShuffleRequest) (*vwrv1.GetShuffleResponse, error) {
	document, err := v.lobbies.Document(ctx, req.GetEventId())
	if err != nil {
		return nil, err
	}
	return &vwrv1.GetShuffleResponse{Document: document}, nil
}

// GetShuffleEntries returns a part of its entries.
func (v *Visitors) GetShuffleEntries(ctx context.Context, req *vwrv1.GetShuffleEntriesRequest) (*vwrv1.GetShuffleEntriesResponse, error) {
	part, err := v.lobbies.Entries(ctx, req.GetEventId(), req.GetOffset())
	if err != nil {
		return nil, err
	}
	return &vwrv1.GetShuffleEntriesResponse{Entries: part.Bytes, Total: part.Total, Root: part.Root.String()}, nil
}

// GetShuffleProof shows that an entry is among them.
func (v *Visitors) GetShuffleProof(ctx context.Context, req *vwrv1.GetShuffleProofRequest) (*vwrv1.ShuffleProof, error) {
	id, err := uuid.Parse(req.GetRequestId())
	if err != nil {
		return nil, errs.ErrInvalidID.Wrap(err)
	}
	p, rank, err := v.lobbies.Proof(ctx, req.GetEventId(), id)
	if err != nil {
		return nil, err
	}
	out := &vwrv1.ShuffleProof{Index: int64(p.Index), Count: int64(p.Count)}
	for _, h := range p.Path {
		out.Path = append(out.Path, h.String())
	}
	if rank > 0 {
		out.Rank = proto.Int64(rank)
	}
	return out, nil
}
