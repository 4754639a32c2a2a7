package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/proto/events"
	"urr.guru/scripts/platform"
)

// rewardCounts are the figures of one reward campaign.
type rewardCounts struct {
	Paid, Failed, Cancelled, PointsPaid int64
}

// wrongRewards compares stats's figures of a campaign with the events in the topic, each id counted
// once.
func (s *Stores) wrongRewards(ctx context.Context, eventID string) ([]string, error) {
	var counted rewardCounts
	err := s.stats.QueryRow(ctx, `
		SELECT coalesce(sum(paid), 0)::bigint, coalesce(sum(failed), 0)::bigint, coalesce(sum(cancelled), 0)::bigint,
		       coalesce(sum(points_paid), 0)::bigint
		FROM reward_days WHERE event_id = $1`, eventID).Scan(&counted.Paid, &counted.Failed, &counted.Cancelled, &counted.PointsPaid)
	if err != nil {
		return nil, fmt.Errorf("rewards of %s: %w", eventID, unavailable(postgresStore(platform.Stats), err))
	}
	published, err := s.publishedRewards(ctx, eventID)
	if err != nil {
		return nil, err
	}
	if counted == published {
		return nil, nil
	}
	return []string{fmt.Sprintf("stats has the rewards %+v, the events are %+v", counted, published)}, nil
}

// publishedRewards are the figures of the topic; zero on a platform without reward, which has none.
func (s *Stores) publishedRewards(ctx context.Context, eventID string) (c rewardCounts, err error) {
	facts, err := s.facts(ctx, events.Rewards, eventID)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return c, nil
	}
	for _, f := range facts {
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
	return c, err
}
