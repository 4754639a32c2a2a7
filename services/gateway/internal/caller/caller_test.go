package caller_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/caller"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func send(t *testing.T, ctx context.Context, method string, m proto.Message) (proto.Message, error) {
	t.Helper()
	var sent proto.Message
	err := caller.SetCallerInterceptor(ctx, method, m, nil, nil, func(_ context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		sent, _ = req.(proto.Message)
		return nil
	})
	return sent, err
}

func TestAlwaysOverwritten(t *testing.T) {
	t.Parallel()
	forged := &commonv1.Caller{UserId: "root", Roles: []string{"admin"}}
	alice := &commonv1.Caller{UserId: "alice"}
	got, err := send(t, caller.With(t.Context(), alice), "/m", &ticketv1.GetReservationRequest{Caller: forged, ReservationId: "r"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(proto.Message(&ticketv1.GetReservationRequest{Caller: alice, ReservationId: "r"}), got, protocmp.Transform()))

	got, err = send(t, t.Context(), "/m", &ticketv1.GetReservationRequest{Caller: forged, ReservationId: "r"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(proto.Message(&ticketv1.GetReservationRequest{ReservationId: "r"}), got, protocmp.Transform()), "nobody asks: nobody is named")

	_, err = send(t, caller.With(t.Context(), alice), "/m", &ticketv1.GetEventRequest{EventId: "e"})
	require.NoError(t, err)

	// The callers of a batch's items were set before, each from its own request.
	batch := &ticketv1.HoldSeatsRequest{Items: []*ticketv1.HoldSeatsItem{{Caller: &commonv1.Caller{UserId: "bob"}}}}
	got, err = send(t, caller.With(t.Context(), alice), "/m", batch)
	require.NoError(t, err)
	require.Equal(t, "bob", got.(*ticketv1.HoldSeatsRequest).GetItems()[0].GetCaller().GetUserId()) //nolint:forcetypeassert // what was sent
}

func TestOnlyTheCheckedRoute(t *testing.T) {
	t.Parallel()
	ctx := caller.WithOnly(t.Context(), &commonv1.Caller{UserId: "alice"}, "/checked")
	_, err := send(t, ctx, "/checked", &ticketv1.GetReservationRequest{})
	require.NoError(t, err)
	sent, err := send(t, ctx, "/another", &ticketv1.GetReservationRequest{})
	require.ErrorIs(t, err, errs.ErrInternal)
	require.Nil(t, sent)
}
