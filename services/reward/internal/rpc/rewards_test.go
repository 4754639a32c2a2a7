package rpc_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/internal/rpc"
)

var today = time.Date(2026, 3, 7, 3, 0, 0, 0, time.UTC)

type clients struct {
	rewardv1.RewardServiceClient

	admin rewardv1.RewardAdminServiceClient
	clock *testkit.Clock
	pool  *pgxpool.Pool
}

// promotions is a PromotionChecker that knows every promotion but one.
type promotions struct{}

func (promotions) CheckExists(_ context.Context, id string) error {
	if id == "unknown" {
		return campaign.ErrNoPromotion
	}
	return nil
}

func serve(t *testing.T) clients {
	t.Helper()
	clock := testkit.NewClock(today)
	pool := postgrestest.New(t, postgres.Migrations...)
	database := postgres.New(pool, postgres.Options{Now: clock.Now})
	campaigns := campaign.NewService(postgres.NewCampaigns(database), promotions{}, func() {})
	operators := postgres.Operators{Database: database, WakePayouts: func() {}}
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		rewardv1.RegisterRewardServiceServer(r, rpc.New(campaigns, operators))
		rewardv1.RegisterRewardAdminServiceServer(r, rpc.NewAdmin(campaigns, operators, operators, operators))
	})
	return clients{rewardv1.NewRewardServiceClient(conn), rewardv1.NewRewardAdminServiceClient(conn), clock, pool}
}

func user(key string) *commonv1.Caller {
	return &commonv1.Caller{UserId: "ann", IdempotencyKey: key}
}

func operator(key string) *commonv1.Caller {
	return &commonv1.Caller{UserId: "op", Roles: []string{"admin"}, IdempotencyKey: key}
}

func attendance(key string) *rewardv1.CreateCampaignRequest {
	return &rewardv1.CreateCampaignRequest{
		Caller: operator(key), Title: "March", Kind: "ATTENDANCE", OpensAt: timestamppb.New(today.AddDate(0, 0, -7)),
		ClosesAt: timestamppb.New(today.AddDate(0, 0, 7)), Daily: &rewardv1.Reward{Kind: "POINT", Value: 10},
		Milestones: []*rewardv1.Milestone{{Day: 2, Kind: "COUPON", Value: 7}},
	}
}

func TestAttendance(t *testing.T) {
	t.Parallel()
	c := serve(t)
	created, err := c.admin.CreateCampaign(t.Context(), attendance("k"))
	require.NoError(t, err)
	again, err := c.admin.CreateCampaign(t.Context(), attendance("k"))
	require.NoError(t, err)
	require.Equal(t, created.GetEventId(), again.GetEventId())
	event := created.GetEventId()

	first, err := c.Attend(t.Context(), &rewardv1.AttendRequest{Caller: user(""), EventId: event})
	require.NoError(t, err)
	require.Equal(t, "2026-03-07", first.GetDay())
	require.Equal(t, int32(1), first.GetStreak())
	require.False(t, first.GetRepeated())
	require.Len(t, first.GetRewards(), 1)
	require.Equal(t, "DAILY", first.GetRewards()[0].GetReason())
	repeated, err := c.Attend(t.Context(), &rewardv1.AttendRequest{Caller: user(""), EventId: event})
	require.NoError(t, err)
	require.True(t, repeated.GetRepeated())
	require.Equal(t, first.GetEntryId(), repeated.GetEntryId())

	c.clock.Advance(24 * time.Hour)
	second, err := c.Attend(t.Context(), &rewardv1.AttendRequest{Caller: user(""), EventId: event})
	require.NoError(t, err)
	require.Len(t, second.GetRewards(), 2)
	part, err := c.GetMyPart(t.Context(), &rewardv1.GetMyPartRequest{Caller: user(""), EventId: event})
	require.NoError(t, err)
	require.Equal(t, []string{"2026-03-07", "2026-03-08"}, part.GetDays())
	require.Equal(t, int32(2), part.GetStreak())
	require.Equal(t, []int32{2}, part.GetMilestones())
	require.Equal(t, "2026-03-08", part.GetToday())
	require.Len(t, part.GetEntries(), 1, "today's only")
	require.Equal(t, second.GetEntryId(), part.GetEntries()[0].GetEntryId())
	require.Equal(t, int32(2), part.GetEntries()[0].GetStreak())
	require.Len(t, part.GetEntries()[0].GetRewards(), 2)

	c.clock.Advance(30 * 24 * time.Hour)
	_, err = c.Attend(t.Context(), &rewardv1.AttendRequest{Caller: user(""), EventId: event})
	require.ErrorIs(t, errs.From(err), errs.ErrNotOpen)
}

func TestDraws(t *testing.T) {
	t.Parallel()
	c := serve(t)
	draws := int32(2)
	created, err := c.admin.CreateCampaign(t.Context(), &rewardv1.CreateCampaignRequest{
		Caller: operator(""), Title: "Draw", Kind: "RANDOM", OpensAt: timestamppb.New(today), ClosesAt: timestamppb.New(today.AddDate(0, 0, 7)),
		DrawsPerMember: &draws, Prizes: []*rewardv1.Prize{{Name: "points", Kind: "POINT", Value: 5, Weight: 1}},
	})
	require.NoError(t, err)
	draw := func(key string) (*rewardv1.Earned, error) {
		return c.Draw(t.Context(), &rewardv1.DrawRequest{Caller: user(key), EventId: created.GetEventId()})
	}
	_, err = draw("")
	require.ErrorIs(t, errs.From(err), errs.ErrIdempotencyKeyRequired)
	first, err := draw("a")
	require.NoError(t, err)
	require.Equal(t, "points", first.GetPrize().GetName())
	repeated, err := draw("a")
	require.NoError(t, err)
	require.True(t, repeated.GetRepeated())
	require.Equal(t, first.GetEntryId(), repeated.GetEntryId())
	_, err = draw("b")
	require.NoError(t, err)
	_, err = draw("c")
	require.ErrorIs(t, errs.From(err), errs.ErrDrawsUsedUp)
	part, err := c.GetMyPart(t.Context(), &rewardv1.GetMyPartRequest{Caller: user(""), EventId: created.GetEventId()})
	require.NoError(t, err)
	require.Zero(t, part.GetDrawsLeft())
	require.Len(t, part.GetEntries(), 2)
	require.Equal(t, first.GetEntryId(), part.GetEntries()[1].GetEntryId(), "newest first")
	require.Equal(t, "points", part.GetEntries()[1].GetPrize().GetName())
	require.Equal(t, first.GetRewards()[0].GetAllocationId(), part.GetEntries()[1].GetRewards()[0].GetAllocationId())
}

func TestListsAndOperators(t *testing.T) {
	t.Parallel()
	c := serve(t)
	created, err := c.admin.CreateCampaign(t.Context(), attendance(""))
	require.NoError(t, err)
	var newest string
	for range 3 {
		e, err := c.Attend(t.Context(), &rewardv1.AttendRequest{Caller: user(""), EventId: created.GetEventId()})
		require.NoError(t, err)
		newest = e.GetRewards()[0].GetAllocationId()
		c.clock.Advance(24 * time.Hour)
	}
	var all []string
	for cursor := ""; ; {
		page, err := c.ListMyRewards(t.Context(), &rewardv1.ListMyRewardsRequest{Caller: user(""), Limit: 3, Cursor: cursor})
		require.NoError(t, err)
		for _, r := range page.GetItems() {
			all = append(all, r.GetAllocationId())
		}
		if cursor = page.GetNextCursor(); cursor == "" {
			break
		}
	}
	require.Len(t, all, 4, "three days and a milestone")
	require.Equal(t, newest, all[0])

	list, err := c.admin.ListRewards(t.Context(), &rewardv1.ListRewardsRequest{Caller: operator(""), Status: "PENDING", EventId: created.GetEventId()})
	require.NoError(t, err)
	require.Len(t, list.GetItems(), 4)
	for _, f := range []struct {
		event, status string
		want          int
	}{{"", "", 4}, {created.GetEventId(), "", 4}, {created.GetEventId(), "PENDING", 4}, {"another", "", 0}, {"", "FAILED", 0}} {
		list, err = c.admin.ListRewards(t.Context(), &rewardv1.ListRewardsRequest{
			Caller: operator(""), MemberId: "ann", EventId: f.event, Status: f.status,
		})
		require.NoError(t, err)
		require.Len(t, list.GetItems(), f.want, "%+v", f)
	}
	_, err = c.admin.CancelReward(t.Context(), &rewardv1.CancelRewardRequest{Caller: operator(""), AllocationId: newest})
	require.NoError(t, err)
	for _, event := range []string{"", created.GetEventId()} { // every status, newest first, in pages
		var ids []string
		for cursor := ""; ; cursor = list.GetNextCursor() {
			list, err = c.admin.ListRewards(t.Context(), &rewardv1.ListRewardsRequest{Caller: operator(""), EventId: event, Limit: 3, Cursor: cursor})
			require.NoError(t, err)
			for _, r := range list.GetItems() {
				ids = append(ids, r.GetAllocationId())
			}
			if list.GetNextCursor() == "" {
				break
			}
		}
		require.Equal(t, all, ids)
	}
	_, err = c.Draw(t.Context(), &rewardv1.DrawRequest{Caller: user(""), EventId: created.GetEventId()})
	require.ErrorIs(t, errs.From(err), errs.ErrNotOpen, "nobody draws in a campaign of attendance")
	detail, err := c.admin.GetReward(t.Context(), &rewardv1.GetRewardRequest{Caller: operator(""), AllocationId: newest})
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", detail.GetStatus())
	_, err = c.admin.RetryReward(t.Context(), &rewardv1.RetryRewardRequest{Caller: operator(""), AllocationId: newest})
	require.ErrorIs(t, errs.From(err), errs.ErrRewardNotRetryable)
	_, err = c.admin.GetReward(t.Context(), &rewardv1.GetRewardRequest{Caller: operator(""), AllocationId: strconv.Itoa(1 << 40)})
	require.ErrorIs(t, errs.From(err), errs.ErrAllocationNotFound)
	summary, err := c.admin.GetSummary(t.Context(), &rewardv1.GetSummaryRequest{Caller: operator(""), EventId: created.GetEventId()})
	require.NoError(t, err)
	require.Len(t, summary.GetTotals(), 2)
	_, err = c.admin.GetSummary(t.Context(), &rewardv1.GetSummaryRequest{Caller: user(""), EventId: created.GetEventId()})
	require.ErrorIs(t, errs.From(err), errs.ErrRoleRequired)
}

func TestInvalidCampaignNamesItsFields(t *testing.T) {
	t.Parallel()
	c := serve(t)
	in := attendance("")
	in.Kind, in.ClosesAt, in.PromotionId = "RANDOM", in.OpensAt, new("p")
	_, err := c.admin.CreateCampaign(t.Context(), in)
	require.ErrorIs(t, errs.From(err), errs.ErrInvalidRequest)
	var paths []string
	for _, f := range errs.From(err).Fields {
		paths = append(paths, f.Path)
	}
	require.ElementsMatch(t, []string{"closesAt", "promotionId", "prizes", "daily", "milestones"}, paths)
}

func TestNewCampaignIsScheduled(t *testing.T) {
	t.Parallel()
	c := serve(t)
	in := attendance("")
	in.Title = strings.Repeat("가", 200)
	in.OpensAt = timestamppb.New(today.AddDate(0, 0, 1))
	created, err := c.admin.CreateCampaign(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "SCHEDULED", created.GetStatus())
	in.Title = "\u200b\u3164"
	requireInvalid(t, c, in, "title")
}

// A campaign with rewards that nobody can ever earn is refused.
func TestRewardsThatNobodyCanEarn(t *testing.T) {
	t.Parallel()
	c := serve(t)
	in := attendance("")
	in.Milestones[0].Day = 16 // noon to noon, 14 days later, is open on 15 days
	in.Milestones = append(in.Milestones, &rewardv1.Milestone{Day: 15, Kind: "POINT", Value: 1})
	requireInvalid(t, c, in, "milestones[0].day")
	stock := int64(0)
	in = attendance("")
	in.Kind, in.Daily, in.Milestones = "RANDOM", nil, nil
	in.Prizes = []*rewardv1.Prize{
		{Name: "rare", Kind: "POINT", Value: 1, Weight: 1}, {Name: "gone", Kind: "POINT", Value: 1, Weight: 1000, Stock: &stock},
		{Name: "a", Kind: "NONE", Weight: 1_000_000_000}, {Name: "b", Kind: "NONE", Weight: 1_000_000_000},
	}
	requireInvalid(t, c, in, "prizes[0].weight", "prizes[1].stock")
}

func requireInvalid(t *testing.T, c clients, in *rewardv1.CreateCampaignRequest, want ...string) {
	t.Helper()
	_, err := c.admin.CreateCampaign(t.Context(), in)
	require.ErrorIs(t, errs.From(err), errs.ErrInvalidRequest)
	var paths []string
	for _, f := range errs.From(err).Fields {
		paths = append(paths, f.Path)
	}
	require.Equal(t, want, paths)
}

func TestPaidRewardIsNotCancelled(t *testing.T) {
	t.Parallel()
	c := serve(t)
	created, err := c.admin.CreateCampaign(t.Context(), attendance(""))
	require.NoError(t, err)
	e, err := c.Attend(t.Context(), &rewardv1.AttendRequest{Caller: user(""), EventId: created.GetEventId()})
	require.NoError(t, err)
	cancel := &rewardv1.CancelRewardRequest{Caller: operator(""), AllocationId: e.GetRewards()[0].GetAllocationId()}
	_, err = c.pool.Exec(t.Context(), `UPDATE event_reward_allocation SET reward_status = 'SUCCESS', next_retry_at = NULL, external_transaction_id = 'tx'`)
	require.NoError(t, err)
	_, err = c.admin.CancelReward(t.Context(), cancel)
	require.ErrorIs(t, errs.From(err), errs.ErrRewardNotCancellable)
}
