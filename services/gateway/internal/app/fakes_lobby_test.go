package app_test

import (
	"cmp"
	"context"

	"urr.guru/pkg/errs"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// lobbied is an event whose waiting room starts in an hour.
const lobbied = "lobbied"

func (f *fakeVWR) Join(_ context.Context, in *vwrv1.JoinRequest) (*vwrv1.JoinResponse, error) {
	out := &vwrv1.JoinResponse{}
	for _, i := range in.GetItems() {
		f.add("Join", i.GetCaller(), i)
		out.Results = append(out.Results, &vwrv1.JoinResult{Result: &vwrv1.JoinResult_Joined{Joined: &vwrv1.Joined{
			RequestId: requestID, OpensAt: 2, ClosesAt: 1, Ticket: "t", Receipt: "r",
		}}})
	}
	return out, nil
}

func (f *fakeVWR) GetShuffle(_ context.Context, in *vwrv1.GetShuffleRequest) (*vwrv1.GetShuffleResponse, error) {
	f.add("GetShuffle", nil, nil)
	if in.GetEventId() != busy {
		return nil, errs.ErrLobbyNotFound
	}
	r := shuffleRound(in.GetRound())
	return &vwrv1.GetShuffleResponse{Document: []byte(`{"eventId":"busy","phase":"` + map[int64]string{0: "ROOT", lobbyRound: "ROOT", 1: "VOID"}[r] + `"}`), Round: r}, nil
}

// shuffleRound returns the round of a response: the requested one, or lobbyRound if that is 0.
func shuffleRound(requested int64) int64 { return cmp.Or(requested, lobbyRound) }

func (f *fakeVWR) ListShuffles(_ context.Context, in *vwrv1.ListShufflesRequest) (*vwrv1.ListShufflesResponse, error) {
	if in.GetCursor() != "" {
		return &vwrv1.ListShufflesResponse{Shuffles: []*vwrv1.ShuffleSummary{{Round: 1, Phase: "VOID"}}}, nil
	}
	return &vwrv1.ListShufflesResponse{Shuffles: []*vwrv1.ShuffleSummary{{Round: lobbyRound, Phase: "ROOT", Entries: new(int64(4))}}, NextCursor: "2"}, nil
}

func (f *fakeVWR) GetShuffleEntries(_ context.Context, in *vwrv1.GetShuffleEntriesRequest) (*vwrv1.GetShuffleEntriesResponse, error) {
	f.add("GetShuffleEntries", nil, in)
	if in.GetEventId() != busy {
		return nil, errs.ErrLobbyNotFound
	}
	from := int(in.GetOffset())
	return &vwrv1.GetShuffleEntriesResponse{
		Entries: []byte(lobbyEntries[from:min(from+min(16, int(in.GetSize())), len(lobbyEntries))]), Total: int64(len(lobbyEntries)), Root: "root",
		Round: shuffleRound(in.GetRound()),
	}, nil
}

func (f *fakeVWR) GetShuffleProof(_ context.Context, in *vwrv1.GetShuffleProofRequest) (*vwrv1.ShuffleProof, error) {
	if in.GetEventId() != busy {
		return nil, errs.ErrLobbyNotFound
	}
	return &vwrv1.ShuffleProof{Index: 1, Count: 4, Path: []string{"a"}, Rank: new(int64(3)), Round: shuffleRound(in.GetRound())}, nil
}
