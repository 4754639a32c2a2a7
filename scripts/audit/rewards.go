package audit

import (
	"context"

	"urr.guru/proto/events"
)

// rewardCounts are the figures of one reward campaign.
type rewardCounts struct {
	Paid, Failed, Cancelled, PointsPaid int64
}

// wrongRewards compares stats's figures of a campaign with the events in the topic.
func (s *Stores) wrongRewards(ctx context.Context, eventID string) ([]string, error) {
	return daily[rewardCounts]{
		of: "rewards",
		query: `
			SELECT coalesce(sum(paid), 0)::bigint, coalesce(sum(failed), 0)::bigint, coalesce(sum(cancelled), 0)::bigint,
			       coalesce(sum(points_paid), 0)::bigint
			FROM reward_days WHERE event_id = $1`,
		columns: func(c *rewardCounts) []any { return []any{&c.Paid, &c.Failed, &c.Cancelled, &c.PointsPaid} },
		topic:   events.Rewards, count: (*rewardCounts).add,
	}.wrong(ctx, s, eventID)
}

func (c *rewardCounts) add(f fact) {
	switch f.Type {
	case events.RewardPaid:
		c.Paid++
		if f.RewardKind == "POINT" {
			c.PointsPaid += f.Value
		}
	case events.RewardFailed:
		c.Failed++
	case events.RewardCancelled:
		c.Cancelled++
	}
}
