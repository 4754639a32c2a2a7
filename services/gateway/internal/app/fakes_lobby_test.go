package app_test

import (
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
	return &vwrv1.GetShuffleResponse{Document: []byte(`{"eventId":"busy","phase":"ROOT"}`)}, nil
}

func (f *fakeVWR) GetShuffleEntries(_ context.Context, in *vwrv1.GetShuffleEntriesRequest) (*vwrv1.GetShuffleEntriesResponse, error) {
	f.add("GetShuffleEntries", nil, nil)
	from := int(in.GetOffset())
	return &vwrv1.GetShuffleEntriesResponse{
		Entries: []byte(lobbyEntries[from:min(from+16, len(lobbyEntries))]), Total: int64(len(lobbyEntries)), Root: "root",
	}, nil
}

func (f *fakeVWR) GetShuffleProof(context.Context, *vwrv1.GetShuffleProofRequest) (*vwrv1.ShuffleProof, error) {
	f.add("GetShuffleProof", nil, nil)
	return &vwrv1.ShuffleProof{Index: 1, Count: 4, Path: []string{"a"}, Rank: new(int64(3))}, nil
}
