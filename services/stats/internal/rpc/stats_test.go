package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/rpc"
)

var updated = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// fake knows the one event "e".
type fake struct{}

func (fake) EventCounts(_ context.Context, eventID string) (figures.EventCounts, error) {
	if eventID != "e" {
		return figures.EventCounts{}, nil
	}
	return figures.EventCounts{Counts: figures.Counts{Created: 3, Confirmed: 2, SeatsSold: 4}, UpdatedAt: updated}, nil
}

func (fake) EventRevenue(_ context.Context, eventID string) ([]figures.EventRevenue, error) {
	if eventID != "e" {
		return nil, nil
	}
	return []figures.EventRevenue{{Currency: "KRW", Revenue: figures.Revenue{Confirmed: 10, Refunded: 4, Payments: 2, Refunds: 1}}}, nil
}

func (fake) EventRewards(_ context.Context, eventID string) (figures.EventRewards, error) {
	if eventID != "e" {
		return figures.EventRewards{}, nil
	}
	return figures.EventRewards{RewardCounts: figures.RewardCounts{Paid: 5, Failed: 2, Cancelled: 1, PointsPaid: 2500}, UpdatedAt: updated}, nil
}

func (fake) EventRequests(_ context.Context, eventID string) (figures.EventRequests, error) {
	if eventID != "e" {
		return figures.EventRequests{}, nil
	}
	return figures.EventRequests{RequestCounts: figures.RequestCounts{Succeeded: 6, Rejected: 7, Failed: 1}, UpdatedAt: updated}, nil
}

func client(t *testing.T) statsv1.StatsServiceClient {
	t.Helper()
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { statsv1.RegisterStatsServiceServer(r, rpc.New(fake{}, &log{})) })
	return statsv1.NewStatsServiceClient(conn)
}

func TestGetEventStats(t *testing.T) {
	t.Parallel()
	got, err := client(t).GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: "e"})
	require.NoError(t, err)
	want := &statsv1.EventStats{EventId: "e", Created: 3, Confirmed: 2, SeatsSold: 4, UpdatedAt: timestamppb.New(updated)}
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
}

func TestEventWithoutFiguresHasZeroes(t *testing.T) {
	t.Parallel()
	got, err := client(t).GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: "other"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&statsv1.EventStats{EventId: "other"}, got, protocmp.Transform()))
}

func TestGetEventStatsForOperators(t *testing.T) {
	t.Parallel()
	got, err := client(t).GetEventStatsForOperators(t.Context(), &statsv1.GetEventStatsForOperatorsRequest{
		Caller: &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}, EventId: "e",
	})
	require.NoError(t, err)
	want := []*statsv1.Revenue{{Currency: "KRW", Confirmed: 10, Refunded: 4, Net: 6, Payments: 2, Refunds: 1}}
	require.Empty(t, cmp.Diff(want, got.GetRevenue(), protocmp.Transform()))
	rewards := &statsv1.RewardStats{Paid: 5, Failed: 2, Cancelled: 1, PointsPaid: 2500, UpdatedAt: timestamppb.New(updated)}
	require.Empty(t, cmp.Diff(rewards, got.GetRewards(), protocmp.Transform()))
	requests := &statsv1.RequestStats{Succeeded: 6, Rejected: 7, Failed: 1, UpdatedAt: timestamppb.New(updated)}
	require.Empty(t, cmp.Diff(requests, got.GetRequests(), protocmp.Transform()))
}

func TestAllButCountsIsForOperators(t *testing.T) {
	t.Parallel()
	_, err := client(t).GetEventStatsForOperators(t.Context(), &statsv1.GetEventStatsForOperatorsRequest{
		Caller: &commonv1.Caller{UserId: "alice"}, EventId: "e",
	})
	require.ErrorIs(t, errs.FromStatus(err), errs.ErrRoleRequired)
}

func TestBadIDsAreRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a b", "a/b", string(make([]byte, 65))} {
		_, err := client(t).GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: id})
		require.Equal(t, errs.Invalid, errs.FromStatus(err).Kind, "id %q: %v", id, err)
	}
}
