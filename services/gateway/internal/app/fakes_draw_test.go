package app_test

import (
	"bytes"
	"context"
	"encoding/binary"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"urr.guru/pkg/errs"

	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	workerv1 "urr.guru/proto/gen/urr/worker/v1"
)

// drawPart is the size, in bytes, of the messages in which the fake sends the entries.
const drawPart = 64

// drawEntries returns a file of entries with 100 ids.
func drawEntries() []byte {
	var b []byte
	for i := range 100 {
		b = append(b, bytes.Repeat([]byte{byte(i)}, 16)...)
	}
	return b
}

// largeEntries returns a file of entries with two full chunks and three more ids.
func largeEntries() []byte {
	b := make([]byte, 0, 640_048)
	for i := range 40_003 {
		b = append(b, make([]byte, 12)...)
		b = binary.BigEndian.AppendUint32(b, uint32(i)) //nolint:gosec // small
	}
	return b
}

// GetDraw sends the winners in parts. Every event except "absent" has a draw.
func (f *fakeIngest) GetDraw(in *ingestv1.GetDrawRequest, s grpc.ServerStreamingServer[ingestv1.Draw]) error {
	f.add("GetDraw", nil, in)
	if in.GetEventId() == "absent" {
		return errs.ErrDrawNotFound
	}
	for _, part := range []*ingestv1.Draw{
		{
			EventId: in.GetEventId(), Phase: "SETTLED", Commitment: "{}", Statement: &ingestv1.DrawStatement{Statement: "{}", Signature: "00"},
			Beacon: &ingestv1.DrawRound{Round: 7}, Seed: new("00"),
			Excluded: []*ingestv1.DrawExclusion{{RequestId: requestID, Reason: "REJECTED_LATE"}}, Winners: []string{"a"},
		},
		{Winners: []string{"b", "c"}},
	} {
		if err := s.Send(part); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeIngest) GetDrawEntries(in *ingestv1.GetDrawEntriesRequest, s grpc.ServerStreamingServer[ingestv1.DrawEntries]) error {
	f.add("GetDrawEntries", nil, in)
	if in.GetEventId() == "absent" {
		return errs.ErrEntriesNotPublic
	}
	file := drawEntries()
	if in.GetEventId() == "large" {
		file = largeEntries()
	}
	remaining := file[min(in.GetOffset(), int64(len(file))):]
	if in.GetSize() > 0 {
		remaining = remaining[:min(in.GetSize(), int64(len(remaining)))]
	}
	msg := &ingestv1.DrawEntries{Total: int64(len(file)), Etag: "entries1"}
	for first := true; first || len(remaining) > 0; first = false {
		if !first {
			msg = &ingestv1.DrawEntries{}
		}
		n := min(drawPart, len(remaining))
		if in.GetEventId() == "large" {
			n = min(100_000, len(remaining))
		}
		msg.Ids, remaining = remaining[:n], remaining[n:]
		if err := s.Send(msg); err != nil {
			return err
		}
		if f.cut.Load() {
			return status.Error(codes.Unavailable, "the replica ends")
		}
	}
	return nil
}

func (f *fakeIngest) GetDrawProof(_ context.Context, in *ingestv1.GetDrawProofRequest) (*ingestv1.DrawProof, error) {
	f.add("GetDrawProof", nil, in)
	return &ingestv1.DrawProof{Index: 1, Count: 2, Path: []string{"00"}}, nil
}

func (f *fakeIngest) WithdrawRequest(_ context.Context, in *ingestv1.WithdrawRequestRequest) (*emptypb.Empty, error) {
	f.add("WithdrawRequest", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeIngest) AnnouncePromotion(_ context.Context, in *ingestv1.AnnouncePromotionRequest) (*ingestv1.Promotion, error) {
	f.add("AnnouncePromotion", in.GetCaller(), in)
	return promotionOf(in.GetEventId())
}

func (f *fakeIngest) ExportWinners(in *ingestv1.ExportWinnersRequest, s grpc.ServerStreamingServer[ingestv1.WinnersPart]) error {
	f.add("ExportWinners", in.GetCaller(), in)
	if in.GetEventId() == "absent" {
		return errs.ErrAnnouncementEarly
	}
	line := "rank,requestId,userId\r\n"
	if in.GetAfter() != 0 {
		line = "1," + requestID + ",alice\r\n"
	}
	if err := s.Send(&ingestv1.WinnersPart{Csv: []byte(line)}); err != nil {
		return err
	}
	if in.GetAfter() != 0 && f.cut.Load() {
		return status.Error(codes.Unavailable, "the replica ends")
	}
	if in.GetAfter() == 0 { // another call has the rest
		return s.Send(&ingestv1.WinnersPart{Next: new(int64(1))})
	}
	return nil
}

func (f *fakeWorker) SubmitBeacon(_ context.Context, in *workerv1.SubmitBeaconRequest) (*workerv1.DrawState, error) {
	f.add("SubmitBeacon", in.GetCaller(), in)
	return &workerv1.DrawState{EventId: in.GetEventId(), Phase: "DRAWN", Round: new(uint64(7))}, nil
}

func (f *fakeWorker) VoidPromotion(_ context.Context, in *workerv1.VoidPromotionRequest) (*workerv1.DrawState, error) {
	f.add("VoidPromotion", in.GetCaller(), in)
	return &workerv1.DrawState{EventId: in.GetEventId(), Phase: "VOID"}, nil
}
