// Package rpc serves campaigns and rewards to members and operators over gRPC.
package rpc

import (
	"context"

	"urr.guru/pkg/rpc"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
)

// Rewards serves the RPCs of members: attend, draw, and see what they have earned.
type Rewards struct {
	rewardv1.UnimplementedRewardServiceServer

	campaigns *campaign.Service
	payouts   payout.AllocationReader
}

// New makes the server of members' RPCs.
func New(campaigns *campaign.Service, payouts payout.AllocationReader) *Rewards {
	return &Rewards{campaigns: campaigns, payouts: payouts}
}

func (s *Rewards) GetCampaign(ctx context.Context, in *rewardv1.GetCampaignRequest) (*rewardv1.Campaign, error) {
	c, now, err := s.campaigns.Get(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	return fromCampaign(&c, now), nil
}

func (s *Rewards) Attend(ctx context.Context, in *rewardv1.AttendRequest) (*rewardv1.Earned, error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return nil, err
	}
	e, err := s.campaigns.Attend(ctx, in.GetEventId(), user, in.GetCaller().GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	return fromAttendance(&e), nil
}

func (s *Rewards) Draw(ctx context.Context, in *rewardv1.DrawRequest) (*rewardv1.Earned, error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return nil, err
	}
	e, err := s.campaigns.Draw(ctx, in.GetEventId(), user, in.GetCaller().GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	return fromEarned(&e), nil
}

func (s *Rewards) GetMyPart(ctx context.Context, in *rewardv1.GetMyPartRequest) (*rewardv1.MyPart, error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return nil, err
	}
	p, err := s.campaigns.Part(ctx, in.GetEventId(), user)
	if err != nil {
		return nil, err
	}
	out := &rewardv1.MyPart{
		Days: p.Days(), Streak: int32(p.Streak()), DrawsLeft: int32(p.DrawsLeft()), Today: string(campaign.DayOf(p.Now)), //nolint:gosec // small counts
	}
	for _, day := range p.Milestones {
		out.Milestones = append(out.Milestones, int32(day)) //nolint:gosec // days
	}
	for i := range p.Earned {
		earned := fromEarned
		if p.Campaign.Kind == campaign.Attendance {
			earned = fromAttendance
		}
		out.Entries = append(out.Entries, earned(&p.Earned[i]))
	}
	return out, nil
}

func (s *Rewards) ListMyRewards(ctx context.Context, in *rewardv1.ListMyRewardsRequest) (*rewardv1.ListMyRewardsResponse, error) {
	user, err := rpc.ValidUserFrom(in)
	if err != nil {
		return nil, err
	}
	list, next, err := listPage(ctx, s.payouts, payout.Filter{MemberID: user}, in.GetLimit(), in.GetCursor())
	if err != nil {
		return nil, err
	}
	out := &rewardv1.ListMyRewardsResponse{NextCursor: next}
	for i := range list {
		out.Items = append(out.Items, fromReward(&list[i]))
	}
	return out, nil
}
