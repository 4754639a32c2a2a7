package rpc_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/audit"
	"urr.guru/services/stats/internal/rpc"
)

// log is a fake audit.Store with two acts. It records the filter of the last call.
type log struct{ lastFilter audit.Filter }

func (l *log) Keep(context.Context, []audit.Act, []audit.Ended) (int64, error) { return 0, nil }

func (l *log) List(_ context.Context, f audit.Filter) ([]audit.Act, error) {
	l.lastFilter = f
	acts := []audit.Act{
		{ID: uuid.Max, At: updated, UserID: "ann", Address: "203.0.113.7", Outcome: &audit.Outcome{
			Status: 409, Code: "CONFLICT", At: updated, Entries: &audit.EntryCounts{Total: 3, Added: 2, Removed: 1},
		}},
		{At: updated, UserID: "bob"},
	}
	return acts[:min(f.Limit, 2)], nil
}

func TestListActs(t *testing.T) {
	t.Parallel()
	l := &log{}
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { statsv1.RegisterStatsServiceServer(r, rpc.New(&fake{}, &fake{}, l)) })
	acts := statsv1.NewStatsServiceClient(conn)

	got, err := acts.ListActs(t.Context(), &statsv1.ListActsRequest{Caller: operator})
	require.NoError(t, err)
	first := &statsv1.Act{
		ActId: uuid.Max.String(), At: timestamppb.New(updated), UserId: "ann", Address: "203.0.113.7", Status: proto.Int32(409),
		Code: proto.String("CONFLICT"), EndedAt: timestamppb.New(updated), Entries: &statsv1.EntryCounts{Total: 3, Added: 2, Removed: 1},
	}
	second := &statsv1.Act{ActId: uuid.Nil.String(), At: timestamppb.New(updated), UserId: "bob"}
	require.Empty(t, cmp.Diff(&statsv1.ListActsResponse{Items: []*statsv1.Act{first, second}}, got, protocmp.Transform()))
	require.Equal(t, audit.Filter{Limit: audit.DefaultLimit + 1}, l.lastFilter)

	got, err = acts.ListActs(t.Context(), &statsv1.ListActsRequest{
		Caller: operator, EventId: "e", User: "ann", From: timestamppb.New(updated), To: timestamppb.New(updated), Limit: 1,
	})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]*statsv1.Act{first}, got.GetItems(), protocmp.Transform()))
	require.Equal(t, audit.Filter{EventID: "e", UserID: "ann", From: updated, To: updated, Limit: 2}, l.lastFilter)
	_, err = acts.ListActs(t.Context(), &statsv1.ListActsRequest{Caller: operator, Cursor: got.GetNextCursor()})
	require.NoError(t, err)
	require.Equal(t, audit.Position{At: updated, ID: uuid.Max}, l.lastFilter.Before)

	for name, c := range map[string]struct {
		req  *statsv1.ListActsRequest
		want *errs.Error
	}{
		"nobody":       {&statsv1.ListActsRequest{}, errs.ErrUnauthenticated},
		"a user":       {&statsv1.ListActsRequest{Caller: &commonv1.Caller{UserId: "alice"}}, errs.ErrRoleRequired},
		"a cursor":     {&statsv1.ListActsRequest{Caller: operator, Cursor: "x"}, errs.ErrInvalidCursor},
		"a long page":  {&statsv1.ListActsRequest{Caller: operator, Limit: 101}, errs.ErrInvalidRequest},
		"an event":     {&statsv1.ListActsRequest{Caller: operator, EventId: "a b"}, errs.ErrInvalidRequest},
		"an operator":  {&statsv1.ListActsRequest{Caller: operator, User: "a b"}, errs.ErrInvalidRequest},
		"no such time": {&statsv1.ListActsRequest{Caller: operator, To: &timestamppb.Timestamp{Nanos: -1}}, errs.ErrInvalidRequest},
	} {
		_, err := acts.ListActs(t.Context(), c.req)
		require.ErrorIs(t, errs.FromStatus(err), c.want, name)
	}
}
