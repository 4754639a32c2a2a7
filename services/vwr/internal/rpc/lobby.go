package rpc

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/batchrpc"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

func (v *Visitors) Join(ctx context.Context, req *vwrv1.JoinRequest) (*vwrv1.JoinResponse, error) {
	failed := itemFailures{call: "join"}
	defer failed.log(ctx, v.log)
	return &vwrv1.JoinResponse{Results: batchrpc.PerItem(ctx, req.GetItems(), v.join, func(got lobby.JoinResult, err error) *vwrv1.JoinResult {
		if err != nil {
			return &vwrv1.JoinResult{Result: &vwrv1.JoinResult_Problem{Problem: failed.countFailure(err)}}
		}
		answered.WithLabelValues("join", "joined").Inc()
		return &vwrv1.JoinResult{Result: &vwrv1.JoinResult_Joined{Joined: fromJoinResult(got)}}
	})}, nil
}

func (v *Visitors) join(ctx context.Context, it *vwrv1.JoinItem) (lobby.JoinResult, error) {
	user := rpc.CallerFrom(it).GetUserId()
	if user == "" {
		return lobby.JoinResult{}, errs.ErrUnauthenticated
	}
	return v.lobbies.Join(ctx, it.GetEventId(), user)
}

func fromJoinResult(j lobby.JoinResult) *vwrv1.Joined {
	return &vwrv1.Joined{
		RequestId: j.RequestID.String(), OpensAt: j.StartsAt, ClosesAt: j.ClosesAt, Ticket: j.Ticket, Receipt: j.Receipt,
	}
}

func (v *Visitors) GetShuffle(ctx context.Context, req *vwrv1.GetShuffleRequest) (*vwrv1.GetShuffleResponse, error) {
	document, round, err := v.lobbies.Document(ctx, lobbyOf(req))
	if err != nil {
		return nil, err
	}
	return &vwrv1.GetShuffleResponse{Document: document, Round: int64(round)}, nil
}

// lobbyOf returns the key of the lobby in a request. Round 0 means the event's latest lobby.
func lobbyOf(req interface {
	GetEventId() string
	GetRound() int64
},
) lobby.Key {
	return lobby.Key{EventID: req.GetEventId(), Round: room.Round(req.GetRound())}
}

// ListShuffles lists the lobbies of an event. The cursor is the earliest round on the last page.
func (v *Visitors) ListShuffles(ctx context.Context, req *vwrv1.ListShufflesRequest) (*vwrv1.ListShufflesResponse, error) {
	before, err := cursor.ParseNumber(req.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := v.lobbies.ListLobbies(ctx, req.GetEventId(), room.Round(before))
	if err != nil {
		return nil, err
	}
	out := &vwrv1.ListShufflesResponse{NextCursor: cursor.Number(int64(next))}
	for _, s := range list {
		out.Shuffles = append(out.Shuffles, &vwrv1.ShuffleSummary{
			Round: int64(s.Round), Phase: string(s.Phase), ClosesAt: s.ClosesAt, StartsAt: s.StartsAt,
			CommitmentHash: s.Commitment.String(), Entries: s.Entries,
		})
	}
	return out, nil
}

func (v *Visitors) GetShuffleEntries(ctx context.Context, req *vwrv1.GetShuffleEntriesRequest) (*vwrv1.GetShuffleEntriesResponse, error) {
	size := int64(lobby.PartSize)
	if req.Size != nil {
		size = req.GetSize()
	}
	part, err := v.lobbies.Entries(ctx, lobbyOf(req), req.GetOffset(), size)
	if err != nil {
		return nil, err
	}
	return &vwrv1.GetShuffleEntriesResponse{Entries: part.Bytes, Total: part.Total, Root: part.Root.String(), Round: int64(part.Round)}, nil
}

func (v *Visitors) GetShuffleProof(ctx context.Context, req *vwrv1.GetShuffleProofRequest) (*vwrv1.ShuffleProof, error) {
	id, err := uuid.Parse(req.GetRequestId())
	if err != nil {
		return nil, errs.ErrInvalidID.Wrap(err)
	}
	p, err := v.lobbies.Proof(ctx, lobbyOf(req), id)
	if err != nil {
		return nil, err
	}
	out := &vwrv1.ShuffleProof{Index: int64(p.Index), Count: int64(p.Count), Round: int64(p.Round)}
	for _, h := range p.Path {
		out.Path = append(out.Path, h.String())
	}
	if p.Rank > 0 {
		out.Rank = proto.Int64(p.Rank)
	}
	return out, nil
}
