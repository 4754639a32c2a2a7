package kafka_test

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
)

// stored is a database that stores the offsets of a topic with one partition.
type stored struct {
	mu   sync.Mutex
	next kafka.Offsets
	fail int // how many of the next loads fail
}

func (s *stored) Load(context.Context, string) (kafka.Offsets, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail > 0 {
		s.fail--
		return nil, errs.ErrUnavailable
	}
	return maps.Clone(s.next), nil
}

func (s *stored) Save(_ context.Context, _ string, partition int32, next int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[partition] = max(s.next[partition], next)
	return nil
}

// A restored database is behind the committed offsets of the group. The consumer reads again the
// records that the database lacks, and writes no dead letter twice.
func TestConsumerStartsAtStoredOffsets(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicOf(t, 1), kafkatest.Name("group")
	s := &stored{next: kafka.Offsets{}}
	consume := func(got *seen) (stop func()) {
		c, err := kafka.NewConsumer(kafkatest.Config(t), group, []string{topic}, kafka.Each(func(ctx context.Context, rec kafka.Record) error {
			if string(rec.Value) == "bad" {
				return kafka.Poison(errs.ErrInvalidRequest)
			}
			got.add(rec)
			return s.Save(ctx, rec.Topic, rec.Partition, rec.Offset+1)
		}), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		c.StartAt(s)
		return run(t, c)
	}
	for _, value := range []string{"0", "1", "2", "bad"} {
		publish(t, topic, "k", value)
	}
	var first seen
	stop := consume(&first)
	requireEventually(t, []string{"0", "1", "2"}, first.values)
	kafkatest.Read(t, topic+kafka.DLQSuffix, 1)
	stop()
	require.Equal(t, kafka.Offsets{0: 4}, s.next)

	s.next[0], s.fail = 2, 1 // restored from a backup, and away for a moment
	publish(t, topic, "k", "4")
	var second seen
	stop = consume(&second)
	requireEventually(t, []string{"2", "4"}, second.values)
	stop()

	var third seen
	publish(t, topic, "k", "5")
	stop = consume(&third)
	requireEventually(t, []string{"5"}, third.values)
	stop()

	s.next = kafka.Offsets{} // a service that counts its figures again
	var fourth seen
	stop = consume(&fourth)
	requireEventually(t, []string{"0", "1", "2", "4", "5"}, fourth.values)
	stop()
}
