package rpc

import (
	"bytes"
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"urr.guru/pkg/csvfile"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/rpc"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/request"
)

const (
	// listPart is the most winners and exclusions in one message of a draw. filePart is the most bytes
	// in one message of a file. Both are well below the size limit of gRPC.
	listPart = 20_000
	filePart = 256 << 10
)

func (s *Requests) WithdrawRequest(ctx context.Context, in *ingestv1.WithdrawRequestRequest) (*emptypb.Empty, error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return nil, err
	}
	if err := s.Requests.Withdraw(ctx, in.GetRequestId(), user); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func (s *Requests) GetDraw(in *ingestv1.GetDrawRequest, out grpc.ServerStreamingServer[ingestv1.Draw]) error {
	d, err := s.Draws.Document(out.Context(), in.GetEventId())
	if err != nil {
		return err
	}
	part := fromDocument(&d)
	excluded, winners := d.Excluded, d.Winners
	for {
		n := min(len(excluded), listPart)
		part.Excluded, excluded = fromExclusions(excluded[:n]), excluded[n:]
		n = min(len(winners), listPart)
		part.Winners, winners = winners[:n], winners[n:]
		if err := out.Send(part); err != nil {
			return err
		}
		if len(excluded) == 0 && len(winners) == 0 {
			return nil
		}
		part = &ingestv1.Draw{}
	}
}

func fromDocument(d *fairdraw.Document) *ingestv1.Draw {
	out := &ingestv1.Draw{
		EventId: d.EventID, Phase: string(d.Phase), Commitment: d.Commitment, CommitmentHash: d.CommitmentHash,
		Seed: rpc.Optional(d.Seed), VoidedAt: rpc.Optional(d.VoidedAt), VoidReason: rpc.Optional(d.VoidReason),
	}
	if d.Statement != nil {
		out.Statement = &ingestv1.DrawStatement{Statement: d.Statement.Statement, Signature: d.Statement.Signature}
	}
	if d.Beacon != nil {
		out.Beacon = &ingestv1.DrawRound{Round: d.Beacon.Round, Randomness: d.Beacon.Randomness, Signature: d.Beacon.Signature}
	}
	return out
}

func fromExclusions(excluded []fairdraw.Exclusion) []*ingestv1.DrawExclusion {
	out := make([]*ingestv1.DrawExclusion, len(excluded))
	for i, e := range excluded {
		out[i] = &ingestv1.DrawExclusion{RequestId: e.RequestID, Reason: e.Reason}
	}
	return out
}

func (s *Requests) GetDrawEntries(in *ingestv1.GetDrawEntriesRequest, out grpc.ServerStreamingServer[ingestv1.DrawEntries]) error {
	entries, err := s.Draws.Entries(out.Context(), in.GetEventId())
	if err != nil {
		return err
	}
	at, end := in.GetOffset(), entries.Total
	if size := in.GetSize(); size > 0 && size < end-at {
		end = at + size
	}
	part := &ingestv1.DrawEntries{Total: entries.Total, Etag: entries.ETag}
	for first := true; first || at < end; first = false {
		ids, err := entries.ReadFrom(out.Context(), at)
		if err != nil {
			return err
		}
		part.Ids = ids[:min(int64(len(ids)), filePart, max(0, end-at))]
		at += int64(len(part.Ids))
		if err := out.Send(part); err != nil {
			return err
		}
		part = &ingestv1.DrawEntries{}
	}
	return nil
}

func (s *Requests) GetDrawProof(ctx context.Context, in *ingestv1.GetDrawProofRequest) (*ingestv1.DrawProof, error) {
	proof, rank, err := s.Draws.Proof(ctx, in.GetEventId(), in.GetRequestId())
	if err != nil {
		return nil, err
	}
	out := &ingestv1.DrawProof{Index: int64(proof.Index), Count: int64(proof.Count), Rank: rpc.Optional(int64(rank))}
	for _, h := range proof.Path {
		out.Path = append(out.Path, h.String())
	}
	return out, nil
}

func (s *Admin) AnnouncePromotion(ctx context.Context, in *ingestv1.AnnouncePromotionRequest) (*ingestv1.Promotion, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	p, err := s.draws.RequireAnnounced(ctx, in.GetEventId())
	return s.answer(&p, err)
}

func (s *Admin) ExportWinners(in *ingestv1.ExportWinnersRequest, out grpc.ServerStreamingServer[ingestv1.WinnersPart]) error {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return err
	}
	var text bytes.Buffer
	lines := csvfile.NewWriter(&text)
	send := func(next *int64) error {
		_ = lines.Flush() // writing to a buffer never fails
		defer text.Reset()
		return out.Send(&ingestv1.WinnersPart{Csv: bytes.Clone(text.Bytes()), Next: next})
	}
	rank := in.GetAfter()
	if rank == 0 {
		lines.Write("rank", "requestId", "userId")
	}
	selected := request.WinnerRange{After: rank, Limit: int(in.GetLimit())}
	more, err := s.exporter.Winners(out.Context(), in.GetEventId(), selected, func(page []request.Winner) error {
		for _, w := range page {
			rank++
			lines.Write(strconv.FormatInt(rank, 10), w.RequestID, w.UserID)
		}
		return send(nil)
	})
	switch {
	case err != nil:
		return err
	case more:
		return send(&rank)
	case rank == 0: // there are no winners
		return send(nil)
	}
	return nil
}
