package rpc

import (
	"cmp"
	"context"
	"strconv"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/emptypb"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/rpc"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
)

const (
	admin        = "admin"
	defaultLimit = 20
)

// Admin serves the RPCs with which operators manage campaigns and rewards.
type Admin struct {
	rewardv1.UnimplementedRewardAdminServiceServer

	campaigns *campaign.Service
	payouts   payout.AllocationReader
	operator  payout.Operator
	pauser    payout.Pauser
}

// NewAdmin makes the server of operators' RPCs.
func NewAdmin(campaigns *campaign.Service, payouts payout.AllocationReader, operator payout.Operator, pauser payout.Pauser) *Admin {
	return &Admin{campaigns: campaigns, payouts: payouts, operator: operator, pauser: pauser}
}

func (s *Admin) CreateCampaign(ctx context.Context, in *rewardv1.CreateCampaignRequest) (*rewardv1.Campaign, error) {
	user, err := rpc.RequireRole(in, admin)
	if err != nil {
		return nil, err
	}
	key, err := idempotency.New(user, "reward.campaign", in.GetCaller().GetIdempotencyKey(), rpc.Fingerprint(in))
	if err != nil {
		return nil, err
	}
	c := toCampaign(in)
	c.EventID = uuid.Must(uuid.NewV7()).String()
	c, now, err := s.campaigns.Create(ctx, c, key)
	if err != nil {
		return nil, err
	}
	out := fromCampaign(&c, now)
	out.Expected = rpc.FromExpected(c.Expected)
	return out, nil
}

func (s *Admin) CancelCampaign(ctx context.Context, in *rewardv1.CancelCampaignRequest) (*emptypb.Empty, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	return emptyAnswer(s.operator.CancelCampaign(ctx, in.GetEventId(), in.GetRestock()))
}

func (s *Admin) GetSummary(ctx context.Context, in *rewardv1.GetSummaryRequest) (*rewardv1.Summary, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	totals, err := s.payouts.Summary(ctx, in.GetEventId())
	if err != nil {
		return nil, err
	}
	out := &rewardv1.Summary{}
	for _, t := range totals {
		out.Totals = append(out.Totals, &rewardv1.StatusTotals{
			Status: string(t.Status), Rewards: t.Allocations, Points: t.Points, Held: t.Held, Unknown: t.Unknown,
		})
	}
	return out, nil
}

func (s *Admin) ListRewards(ctx context.Context, in *rewardv1.ListRewardsRequest) (*rewardv1.ListRewardsResponse, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	f := payout.Filter{MemberID: in.GetMemberId(), EventID: in.GetEventId(), Status: payout.Status(in.GetStatus())}
	list, next, err := listPage(ctx, s.payouts, f, in.GetLimit(), in.GetCursor())
	if err != nil {
		return nil, err
	}
	out := &rewardv1.ListRewardsResponse{NextCursor: next}
	for i := range list {
		out.Items = append(out.Items, fromDetail(&list[i], nil))
	}
	return out, nil
}

func (s *Admin) GetReward(ctx context.Context, in *rewardv1.GetRewardRequest) (*rewardv1.RewardDetail, error) {
	id, err := s.allocationID(in, in.GetAllocationId())
	if err != nil {
		return nil, err
	}
	a, calls, err := s.payouts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return fromDetail(&a, calls), nil
}

func (s *Admin) RetryReward(ctx context.Context, in *rewardv1.RetryRewardRequest) (*emptypb.Empty, error) {
	id, err := s.allocationID(in, in.GetAllocationId())
	if err != nil {
		return nil, err
	}
	retried, err := s.operator.Retry(ctx, []int64{id})
	if err != nil || retried > 0 {
		return emptyAnswer(err)
	}
	if _, _, err := s.payouts.Get(ctx, id); err != nil {
		return nil, err
	}
	return nil, payout.ErrNotRetryable
}

func (s *Admin) RetryRewards(ctx context.Context, in *rewardv1.RetryRewardsRequest) (*emptypb.Empty, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	return emptyAnswer(s.operator.RetryCampaign(ctx, in.GetEventId()))
}

func (s *Admin) CancelReward(ctx context.Context, in *rewardv1.CancelRewardRequest) (*emptypb.Empty, error) {
	id, err := s.allocationID(in, in.GetAllocationId())
	if err != nil {
		return nil, err
	}
	a, _, err := s.payouts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if a.Status == payout.Success {
		return nil, payout.ErrNotCancellable
	}
	return emptyAnswer(s.operator.Cancel(ctx, []int64{id}, in.GetRestock()))
}

func (s *Admin) ResolveReward(ctx context.Context, in *rewardv1.ResolveRewardRequest) (*emptypb.Empty, error) {
	id, err := s.allocationID(in, in.GetAllocationId())
	if err != nil {
		return nil, err
	}
	return emptyAnswer(s.operator.Resolve(ctx, id, in.GetPaid(), in.GetExternalTransactionId()))
}

func (s *Admin) PauseProvider(ctx context.Context, in *rewardv1.PauseProviderRequest) (*emptypb.Empty, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	return emptyAnswer(s.pauser.Pause(ctx, kindOf(in.GetName())))
}

func (s *Admin) ResumeProvider(ctx context.Context, in *rewardv1.ResumeProviderRequest) (*emptypb.Empty, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return nil, err
	}
	return emptyAnswer(s.pauser.Resume(ctx, kindOf(in.GetName())))
}

// allocationID checks the caller's role and parses the id of an allocation.
func (s *Admin) allocationID(in any, id string) (int64, error) {
	if _, err := rpc.RequireRole(in, admin); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return 0, errs.ErrInvalidID.Wrap(err)
	}
	return n, nil
}

func emptyAnswer(err error) (*emptypb.Empty, error) {
	if err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// listPage returns a page of allocations and the cursor of the next page: the id of the last item,
// "" on the last page.
func listPage(ctx context.Context, r payout.AllocationReader, f payout.Filter, limit int32, after string) (list []payout.Allocation, next string, err error) {
	if f.Before, err = cursor.ParseNumber(after); err != nil {
		return nil, "", err
	}
	size := cmp.Or(int(limit), defaultLimit)
	f.Limit = size + 1
	if list, err = r.List(ctx, f); err != nil || len(list) <= size {
		return list, "", err
	}
	return list[:size], cursor.Number(list[size-1].ID), nil
}
