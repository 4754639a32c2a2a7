package rpc

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/rpc"
	rewardv1 "urr.guru/proto/gen/urr/reward/v1"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
)

// kindOf returns the kind of rewards that a provider pays; the provider's name is "point" or
// "coupon".
func kindOf(provider string) payout.Kind { return payout.Kind(strings.ToUpper(provider)) }

func toCampaign(in *rewardv1.CreateCampaignRequest) campaign.Campaign {
	c := campaign.Campaign{
		Title: in.GetTitle(), Kind: campaign.Kind(in.GetKind()), OpensAt: in.GetOpensAt().AsTime(), ClosesAt: in.GetClosesAt().AsTime(),
		PromotionID: in.GetPromotionId(), DrawsPerMember: int(in.GetDrawsPerMember()), Period: campaign.Period(in.GetPeriod()),
		Expected: rpc.ToExpected(in.GetExpected()),
	}
	if r := in.GetDaily(); r != nil {
		c.Daily = &campaign.Reward{Kind: payout.Kind(r.GetKind()), Value: r.GetValue()}
	}
	for _, m := range in.GetMilestones() {
		c.Milestones = append(c.Milestones, campaign.Milestone{
			Reward: campaign.Reward{Kind: payout.Kind(m.GetKind()), Value: m.GetValue()}, Day: int(m.GetDay()), Every: m.GetEvery(),
		})
	}
	for _, p := range in.GetPrizes() {
		prize := campaign.Prize{Name: p.GetName(), Blank: p.GetKind() == campaign.KindNone, Weight: p.GetWeight(), Stock: p.Stock}
		prize.Reward.Value = p.GetValue()
		if !prize.Blank {
			prize.Reward.Kind = payout.Kind(p.GetKind())
		}
		c.Prizes = append(c.Prizes, prize)
	}
	return c
}

func fromCampaign(c *campaign.Campaign, now time.Time) *rewardv1.Campaign {
	out := &rewardv1.Campaign{
		EventId: c.EventID, Title: c.Title, Kind: string(c.Kind), OpensAt: timestamppb.New(c.OpensAt), ClosesAt: timestamppb.New(c.ClosesAt),
		Status: string(c.Status(now)), PromotionId: rpc.Optional(c.PromotionID), DrawsPerMember: int32(c.DrawsPerMember), Period: string(c.Period), //nolint:gosec // validated
	}
	if c.Daily != nil {
		out.Daily = &rewardv1.Reward{Kind: string(c.Daily.Kind), Value: c.Daily.Value}
	}
	for _, m := range c.Milestones {
		out.Milestones = append(out.Milestones, &rewardv1.Milestone{Day: int32(m.Day), Kind: string(m.Kind), Value: m.Value, Every: m.Every}) //nolint:gosec // validated
	}
	for i := range c.Prizes {
		out.Prizes = append(out.Prizes, fromPrize(&c.Prizes[i]))
	}
	return out
}

func fromPrize(p *campaign.Prize) *rewardv1.Prize {
	out := &rewardv1.Prize{Name: p.Name, Kind: string(p.Reward.Kind), Value: p.Reward.Value, Weight: p.Weight, Stock: p.Stock}
	if p.Blank {
		out.Kind = campaign.KindNone
	}
	return out
}

func fromEarned(e *campaign.RewardedEntry) *rewardv1.Earned {
	out := &rewardv1.Earned{EntryId: strconv.FormatInt(e.ID, 10), Repeated: e.Repeated}
	if e.Prize != nil {
		out.Prize = fromPrize(e.Prize)
		out.Prize.Stock = nil // it belongs to the campaign, not to the entry
	}
	for i := range e.Rewards {
		out.Rewards = append(out.Rewards, fromReward(&e.Rewards[i]))
	}
	return out
}

func fromAttendance(e *campaign.RewardedEntry) *rewardv1.Earned {
	out := fromEarned(e)
	out.Day, out.Streak = &e.Period, new(int32(e.Streak)) //nolint:gosec // days
	return out
}

func fromReward(a *payout.Allocation) *rewardv1.EarnedReward {
	return &rewardv1.EarnedReward{
		AllocationId: strconv.FormatInt(a.ID, 10), Kind: string(a.Kind), Value: a.Value, Reason: a.Reason, Status: string(a.Status),
		CreatedAt: rpc.Timestamp(a.CreatedAt), EventId: a.EventID,
	}
}

func fromDetail(a *payout.Allocation, calls []payout.CallRecord) *rewardv1.RewardDetail {
	out := &rewardv1.RewardDetail{
		AllocationId: strconv.FormatInt(a.ID, 10), EventId: a.EventID, MemberId: a.MemberID, Kind: string(a.Kind), Value: a.Value,
		Status: string(a.Status), IdempotencyKey: a.KeyToSend(), ExternalTransactionId: rpc.Optional(a.TransactionID),
		RetryCount: int32(a.RetryCount), NextRetryAt: rpc.Timestamp(a.NextRetryAt), ErrorCode: rpc.Optional(a.Code), ErrorMessage: rpc.Optional(a.Message), //nolint:gosec // a small count
		UnknownSince: rpc.Timestamp(a.UnknownSince), HeldAt: rpc.Timestamp(a.HeldAt), ProcessedAt: rpc.Timestamp(a.ProcessedAt),
	}
	for _, c := range calls {
		out.Calls = append(out.Calls, &rewardv1.ProviderCall{
			Action: string(c.Action), SentAt: rpc.Timestamp(c.SentAt), EndedAt: rpc.Timestamp(c.EndedAt), Outcome: string(c.Outcome), Message: c.Message,
		})
	}
	return out
}
