package kafka

import (
	"context"
	"slices"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/rebuild"
)

// Replay reads again the topics from which figures are counted.
type Replay struct{ replay *kafka.Replay }

var _ rebuild.Source = Replay{}

// NewReplay makes a Replay. It fails as kafka.NewReplay does.
func NewReplay(cfg kafka.Config) (Replay, error) {
	r, err := kafka.NewReplay(cfg, figures.Group, events.ConsumedBy("stats")...)
	return Replay{r}, err
}

// Check fails unless the topics from which figures are counted still have all their records.
func (r Replay) Check(ctx context.Context) error {
	for _, topic := range slices.DeleteFunc(events.ConsumedBy("stats"), func(topic string) bool { return topic == events.Audit }) {
		if err := r.replay.CheckComplete(ctx, topic); err != nil {
			return err
		}
	}
	return nil
}

func (r Replay) Read(
	ctx context.Context, topic string, from, to map[int32]int64,
	count func(ctx context.Context, partition int32, recs []figures.Record, next int64) error,
) error {
	return r.replay.Read(ctx, topic, from, to, func(ctx context.Context, partition int32, recs []kafka.Record, next int64) error {
		return count(ctx, partition, toRecords(recs), next)
	})
}

// Refused returns how many records were left out, since the services that write the topics have not
// signed them.
func (r Replay) Refused() int64 { return r.replay.Refused() }

func (Replay) Unreadable(err error) bool { return kafka.IsPoison(err) }
