package app_test

import (
	"context"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/emptypb"

	"urr.guru/pkg/errs"

	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
)

// campaignOfRewards is the campaign to which every reward belongs.
const campaignOfRewards = "campaign"

// fakeReward has every campaign except "absent", and every reward.
type fakeReward struct {
	rewardv1.UnimplementedRewardServiceServer
	rewardv1.UnimplementedRewardAdminServiceServer
	callLog

	// repeated makes Attend and Draw respond as to a repeated request.
	repeated atomic.Bool
}

func (f *fakeReward) GetCampaign(_ context.Context, in *rewardv1.GetCampaignRequest) (*rewardv1.Campaign, error) {
	f.add("GetCampaign", nil, in)
	if in.GetEventId() == "absent" {
		return nil, errs.ErrCampaignNotFound
	}
	return &rewardv1.Campaign{EventId: in.GetEventId(), Kind: "ATTENDANCE", Status: "OPEN"}, nil
}

func (f *fakeReward) Attend(_ context.Context, in *rewardv1.AttendRequest) (*rewardv1.Earned, error) {
	f.add("Attend", in.GetCaller(), in)
	return &rewardv1.Earned{EntryId: "17", Day: new("2026-03-01"), Streak: new(int32(1)), Repeated: f.repeated.Load()}, nil
}

func (f *fakeReward) Draw(_ context.Context, in *rewardv1.DrawRequest) (*rewardv1.Earned, error) {
	f.add("Draw", in.GetCaller(), in)
	if in.GetEventId() == "absent" {
		return nil, errs.ErrCampaignNotFound
	}
	return &rewardv1.Earned{EntryId: "18", Prize: &rewardv1.Prize{Name: "A blank", Kind: "NONE", Weight: 1}, Repeated: f.repeated.Load()}, nil
}

func (f *fakeReward) GetMyPart(_ context.Context, in *rewardv1.GetMyPartRequest) (*rewardv1.MyPart, error) {
	f.add("GetMyPart", in.GetCaller(), in)
	return &rewardv1.MyPart{Today: "2026-03-01"}, nil
}

func (f *fakeReward) ListMyRewards(_ context.Context, in *rewardv1.ListMyRewardsRequest) (*rewardv1.ListMyRewardsResponse, error) {
	f.add("ListMyRewards", in.GetCaller(), in)
	return &rewardv1.ListMyRewardsResponse{}, nil
}

func (f *fakeReward) CreateCampaign(_ context.Context, in *rewardv1.CreateCampaignRequest) (*rewardv1.Campaign, error) {
	f.add("CreateCampaign", in.GetCaller(), in)
	return &rewardv1.Campaign{EventId: requestID, Kind: in.GetKind()}, nil
}

func (f *fakeReward) CancelCampaign(_ context.Context, in *rewardv1.CancelCampaignRequest) (*emptypb.Empty, error) {
	f.add("CancelCampaign", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeReward) GetSummary(_ context.Context, in *rewardv1.GetSummaryRequest) (*rewardv1.Summary, error) {
	f.add("GetSummary", in.GetCaller(), in)
	return &rewardv1.Summary{}, nil
}

func (f *fakeReward) ListRewards(_ context.Context, in *rewardv1.ListRewardsRequest) (*rewardv1.ListRewardsResponse, error) {
	f.add("ListRewards", in.GetCaller(), in)
	return &rewardv1.ListRewardsResponse{}, nil
}

func (f *fakeReward) GetReward(_ context.Context, in *rewardv1.GetRewardRequest) (*rewardv1.RewardDetail, error) {
	f.add("GetReward", in.GetCaller(), in)
	return &rewardv1.RewardDetail{AllocationId: in.GetAllocationId(), EventId: campaignOfRewards}, nil
}

func (f *fakeReward) RetryReward(_ context.Context, in *rewardv1.RetryRewardRequest) (*emptypb.Empty, error) {
	f.add("RetryReward", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeReward) RetryRewards(_ context.Context, in *rewardv1.RetryRewardsRequest) (*emptypb.Empty, error) {
	f.add("RetryRewards", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeReward) CancelReward(_ context.Context, in *rewardv1.CancelRewardRequest) (*emptypb.Empty, error) {
	f.add("CancelReward", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeReward) ResolveReward(_ context.Context, in *rewardv1.ResolveRewardRequest) (*emptypb.Empty, error) {
	f.add("ResolveReward", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeReward) PauseProvider(_ context.Context, in *rewardv1.PauseProviderRequest) (*emptypb.Empty, error) {
	f.add("PauseProvider", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}

func (f *fakeReward) ResumeProvider(_ context.Context, in *rewardv1.ResumeProviderRequest) (*emptypb.Empty, error) {
	f.add("ResumeProvider", in.GetCaller(), in)
	return &emptypb.Empty{}, nil
}
