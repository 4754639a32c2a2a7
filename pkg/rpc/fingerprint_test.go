package rpc_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// Stored idempotency keys contain the hash of the text for a day, so it must not change.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	in := &ingestv1.CreatePromotionRequest{
		Caller: &commonv1.Caller{UserId: "ann"}, Title: "Shoes", CapacityTotal: 5, OpensAt: &timestamppb.Timestamp{Seconds: 7},
	}
	other := proto.CloneOf(in)
	other.Caller.UserId = "bob"
	for _, tc := range []struct {
		msg  proto.Message
		want string
	}{
		{in, `{"title":"Shoes","capacity_total":5,"opens_at":{"seconds":7}}`},
		{other, `{"title":"Shoes","capacity_total":5,"opens_at":{"seconds":7}}`},
		{in.GetOpensAt(), `{"seconds":7}`},
	} {
		require.Equal(t, tc.want, rpc.Fingerprint(tc.msg))
	}
	require.Equal(t, "ann", in.GetCaller().GetUserId())
}

func TestValidUserFrom(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]error{"ann": nil, "": errs.ErrUnauthenticated, "a#b": errs.ErrInvalidID} {
		got, err := rpc.ValidUserFrom(&ingestv1.GetRequestRequest{Caller: &commonv1.Caller{UserId: id}})
		require.ErrorIs(t, err, want)
		if want == nil {
			require.Equal(t, id, got)
		}
	}
}
