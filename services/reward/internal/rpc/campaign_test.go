package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire/wiretest"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
)

// Every field of a new campaign is stored and shown. A new field of CreateCampaignRequest needs a
// line here only if its rules, or the kinds of campaigns, refuse the value that Fill sets.
func TestCampaignShowsAllThatWasSet(t *testing.T) {
	t.Parallel()
	c := serve(t)
	var all []*rewardv1.CreateCampaignRequest
	for kind, without := range map[string][]string{
		"ATTENDANCE":      {"prizes", "promotion_id"},
		"RANDOM":          {"daily", "milestones", "promotion_id"},
		"REQUEST_WINNERS": {"prizes"},
	} {
		given := map[string]any{
			"caller": nil, "kind": kind, "period": "DAY", "closes_at": timestamppb.New(time.Date(2043, 1, 1, 0, 0, 0, 0, time.UTC)), // after the milestones
			"daily.kind": "POINT", "milestones.kind": "COUPON", "prizes.kind": "COUPON",
		}
		for _, member := range without {
			given[member] = nil
		}
		in := &rewardv1.CreateCampaignRequest{}
		wiretest.Fill(in, given)
		all = append(all, in)
		in, _ = proto.Clone(in).(*rewardv1.CreateCampaignRequest)
		in.Caller = operator("")
		created, err := c.admin.CreateCampaign(t.Context(), in)
		require.NoError(t, err, kind)
		wiretest.RequireShown(t, in, created, "caller")
		read, err := c.GetCampaign(t.Context(), &rewardv1.GetCampaignRequest{EventId: created.GetEventId()})
		require.NoError(t, err)
		wiretest.RequireShown(t, in, read, "caller", "expected")
		require.Nil(t, read.GetExpected(), "for operators only")
	}
	require.Equal(t, []string{"caller"}, wiretest.Unset(all...))
}

func TestWinnersOfUnknownPromotionAreRefused(t *testing.T) {
	t.Parallel()
	c := serve(t)
	in := &rewardv1.CreateCampaignRequest{
		Caller: operator(""), Title: "Winners", Kind: "REQUEST_WINNERS", OpensAt: timestamppb.New(today), ClosesAt: timestamppb.New(today.AddDate(0, 0, 7)),
		Daily: &rewardv1.Reward{Kind: "POINT", Value: 10}, PromotionId: new("unknown"),
	}
	_, err := c.admin.CreateCampaign(t.Context(), in)
	require.ErrorIs(t, err, errs.ErrPromotionNotFound)
	in.PromotionId = new("known")
	_, err = c.admin.CreateCampaign(t.Context(), in)
	require.NoError(t, err)
}
