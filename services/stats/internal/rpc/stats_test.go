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

// fake has figures of the event "e" only. It records the last queries that it gets.
type fake struct {
	series figures.SeriesQuery
	days   figures.DaysFilter
}

func (*fake) EventFigures(_ context.Context, eventID string) (e figures.EventFigures, err error) {
	if eventID != "e" {
		return e, nil
	}
	e.Figures, e.Updated = figuresOfE, map[figures.ID]time.Time{
		{Figure: figures.Created}: updated.Add(-time.Hour), {Figure: figures.SeatsSold}: updated, {Figure: figures.RewardsFailed}: updated,
		{Figure: figures.RequestsRejected}: updated, {Figure: figures.Sale, Currency: "KRW"}: updated.Add(time.Hour),
	}
	return e, nil
}

var figuresOfE = figures.Figures{
	{Figure: figures.Created}: {Amount: 3, Times: 3}, {Figure: figures.Confirmed}: {Amount: 2, Times: 2}, {Figure: figures.SeatsSold}: {Amount: 4, Times: 2},
	{Figure: figures.RewardsPaid}: {Amount: 5, Times: 5}, {Figure: figures.RewardsFailed}: {Amount: 2, Times: 2},
	{Figure: figures.RewardsCancelled}: {Amount: 1, Times: 1}, {Figure: figures.PointsPaid}: {Amount: 2500, Times: 5},
	{Figure: figures.RequestsSucceeded}: {Amount: 6, Times: 6}, {Figure: figures.RequestsRejected}: {Amount: 7, Times: 7},
	{Figure: figures.RequestsFailed}: {Amount: 1, Times: 1},
	{Figure: figures.CheckedIn}:      {Amount: 8, Times: 1}, {Figure: figures.PaymentsDeclined}: {Amount: 9, Times: 9}, {Figure: figures.Entries}: {Amount: 11, Times: 11},
	{Figure: figures.TransfersCompleted}: {Amount: 12, Times: 12}, {Figure: figures.TransfersCancelled}: {Amount: 13, Times: 13},
	{Figure: figures.TransfersRejected}: {Amount: 14, Times: 14}, {Figure: figures.MembershipsActivated}: {Amount: 15, Times: 15},
	{Figure: figures.MembershipsRejected}: {Amount: 16, Times: 16}, {Figure: figures.MembershipsEnded}: {Amount: 17, Times: 17},
	{Figure: figures.Comps}: {Amount: 18, Times: 2}, {Figure: figures.Voided}: {Amount: 19, Times: 3},
	{Figure: figures.Sale, Currency: "KRW"}: {Amount: 10, Times: 2}, {Figure: figures.SaleRefund, Currency: "KRW"}: {Amount: 4, Times: 1},
	{Figure: figures.Transfer, Currency: "KRW"}: {Amount: 3, Times: 1}, {Figure: figures.Membership, Currency: "EUR"}: {Amount: 9, Times: 1},
}

// revenueOfE is what operators see of the money in figuresOfE.
var revenueOfE = []*statsv1.Revenue{
	{Currency: "EUR", Confirmed: 9, Net: 9, Payments: 1, ByCause: &statsv1.MoneyByCause{Membership: 9}},
	{Currency: "KRW", Confirmed: 10, Refunded: 4, Net: 6, Payments: 2, Refunds: 1, ByCause: &statsv1.MoneyByCause{
		Sale: 10, SaleRefund: 4, Transfer: 3,
	}},
}

var allOfE = &statsv1.Figures{
	Created: 3, Confirmed: 2, SeatsSold: 4, RewardsPaid: 5, RewardsFailed: 2, RewardsCancelled: 1, PointsPaid: 2500, RequestsSucceeded: 6,
	RequestsRejected: 7, RequestsFailed: 1, Revenue: revenueOfE, CheckedIn: 8, PaymentsDeclined: 9, Entries: 11,
	TransfersCompleted: 12, TransfersCancelled: 13, TransfersRejected: 14, MembershipsActivated: 15, MembershipsRejected: 16, MembershipsEnded: 17,
	Comps: 18, Voided: 19,
}

func (f *fake) EventSeries(_ context.Context, q figures.SeriesQuery) ([]figures.Point, error) {
	f.series = q
	return []figures.Point{{At: q.From, Figures: figuresOfE}}, nil
}

func (f *fake) List(_ context.Context, q figures.DaysFilter) (days []figures.EventDay, next string, err error) {
	f.days = q
	return []figures.EventDay{{EventID: "e", Day: q.From, Zone: "Asia/Seoul", Figures: figuresOfE}}, "next", nil
}

func client(t *testing.T) (statsv1.StatsServiceClient, *fake) {
	t.Helper()
	f := &fake{}
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { statsv1.RegisterStatsServiceServer(r, rpc.New(f, f, &log{})) })
	return statsv1.NewStatsServiceClient(conn), f
}

var operator = &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}

func TestGetEventStats(t *testing.T) {
	t.Parallel()
	stats, _ := client(t)
	got, err := stats.GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: "e"})
	require.NoError(t, err)
	want := &statsv1.EventStats{EventId: "e", Created: 3, Confirmed: 2, SeatsSold: 4, UpdatedAt: timestamppb.New(updated)}
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
}

func TestEventWithoutFiguresHasZeroes(t *testing.T) {
	t.Parallel()
	stats, _ := client(t)
	got, err := stats.GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: "other"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&statsv1.EventStats{EventId: "other"}, got, protocmp.Transform()))
}

func TestGetEventStatsForOperators(t *testing.T) {
	t.Parallel()
	stats, _ := client(t)
	got, err := stats.GetEventStatsForOperators(t.Context(), &statsv1.GetEventStatsForOperatorsRequest{Caller: operator, EventId: "e"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(revenueOfE, got.GetRevenue(), protocmp.Transform()))
	require.Equal(t, []int64{8, 9, 12, 13, 14, 18, 19}, []int64{
		got.GetCheckedIn(), got.GetPaymentsDeclined(), got.GetTransfersCompleted(), got.GetTransfersCancelled(), got.GetTransfersRejected(),
		got.GetComps(), got.GetVoided(),
	})
	rewards := &statsv1.RewardStats{Entries: 11, Paid: 5, Failed: 2, Cancelled: 1, PointsPaid: 2500, UpdatedAt: timestamppb.New(updated)}
	require.Empty(t, cmp.Diff(rewards, got.GetRewards(), protocmp.Transform()))
	requests := &statsv1.RequestStats{Succeeded: 6, Rejected: 7, Failed: 1, UpdatedAt: timestamppb.New(updated)}
	require.Empty(t, cmp.Diff(requests, got.GetRequests(), protocmp.Transform()))
}

func TestAllButCountsIsForOperators(t *testing.T) {
	t.Parallel()
	stats, _ := client(t)
	alice, from, to := &commonv1.Caller{UserId: "alice"}, timestamppb.New(updated), timestamppb.New(updated.Add(time.Hour))
	_, err := stats.GetEventStatsForOperators(t.Context(), &statsv1.GetEventStatsForOperatorsRequest{Caller: alice, EventId: "e"})
	require.ErrorIs(t, errs.FromStatus(err), errs.ErrRoleRequired)
	_, err = stats.GetEventSeriesForOperators(t.Context(), &statsv1.GetEventSeriesForOperatorsRequest{Caller: alice, EventId: "e", From: from, To: to})
	require.ErrorIs(t, errs.FromStatus(err), errs.ErrRoleRequired)
	_, err = stats.ListDays(t.Context(), &statsv1.ListDaysRequest{Caller: alice, From: "2026-11-21", To: "2026-11-21"})
	require.ErrorIs(t, errs.FromStatus(err), errs.ErrRoleRequired)
}

func TestBadIDsAreRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "a b", "a/b", string(make([]byte, 65))} {
		stats, _ := client(t)
		_, err := stats.GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: id})
		require.Equal(t, errs.Invalid, errs.FromStatus(err).Kind, "id %q: %v", id, err)
	}
}
