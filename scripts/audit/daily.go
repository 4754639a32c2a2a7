package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/proto/events"
	"urr.guru/scripts/platform"
)

// daily is a kind of figures that stats keeps by event and day, counted from one topic.
type daily struct {
	// of is what they count.
	of string
	// query sums the figures of the event $1, each in a column of its name.
	query string
	topic string
	// counts is the figure that a type of event increments.
	counts map[string]string
	// add counts more of an event than its type; nil: nothing.
	add func(published map[string]int64, f fact)
}

// dailies are the figures of rewards and requests.
func dailies() []daily {
	return []daily{
		{
			of: "rewards", topic: events.Rewards,
			query: `SELECT sum(paid) AS paid, sum(failed) AS failed, sum(cancelled) AS cancelled, sum(points_paid) AS points_paid
			        FROM reward_days WHERE event_id = $1`,
			counts: map[string]string{events.RewardPaid: "paid", events.RewardFailed: "failed", events.RewardCancelled: "cancelled"},
			add: func(published map[string]int64, f fact) {
				if f.Type == events.RewardPaid && f.RewardKind == "POINT" {
					published["points_paid"] += f.Value
				}
			},
		},
		{
			of: "requests", topic: events.Requests,
			query:  `SELECT sum(succeeded) AS succeeded, sum(rejected) AS rejected, sum(failed) AS failed FROM request_days WHERE event_id = $1`,
			counts: map[string]string{events.RequestSucceeded: "succeeded", events.RequestRejected: "rejected", events.RequestFailed: "failed"},
		},
	}
}

// wrong compares the figures of an event with those of the topic, in which each id is counted once.
func (d daily) wrong(ctx context.Context, s *Stores, eventID string) ([]string, error) {
	counted := map[string]int64{}
	err := s.stats.QueryRow(ctx, `SELECT jsonb_strip_nulls(to_jsonb(figures)) FROM (`+d.query+`) AS figures`, eventID).Scan(&counted)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", d.of, eventID, unavailable(postgresStore(platform.Stats), err))
	}
	facts, err := s.facts(ctx, d.topic, eventID)
	if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) { // a platform without the service has no topic
		return nil, err
	}
	published := map[string]int64{}
	for _, f := range facts {
		if name := d.counts[f.Type]; name != "" {
			published[name]++
		}
		if d.add != nil {
			d.add(published, f)
		}
	}
	for _, figures := range []map[string]int64{counted, published} {
		maps.DeleteFunc(figures, func(_ string, n int64) bool { return n == 0 })
	}
	if maps.Equal(counted, published) {
		return nil, nil
	}
	return []string{fmt.Sprintf("stats has the %s %v, the events are %v", d.of, counted, published)}, nil
}
