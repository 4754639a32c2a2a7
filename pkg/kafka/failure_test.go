package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
)

// A backend that accepts requests and never answers blocks its partition until the timeout, not
// forever.
func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	publish(t, topic, "k", "1", "2")
	var done seen
	calls := 0
	c := consumer(t, kafkatest.Name("group"), topic, kafka.Each(func(ctx context.Context, r kafka.Record) error {
		if calls++; calls == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		done.add(r)
		return nil
	}))
	c.HandlerTimeout(20 * time.Millisecond)
	run(t, c)
	requireEventually(t, []string{"1", "2"}, done.values)
}

// A record is marked only after its dead letter is written: otherwise it would be lost.
func TestUnwrittenDeadLetterBlocksItsPartition(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicWithoutDLQ(t), kafkatest.Name("group")
	publish(t, topic, "k", "bad", "good")
	var done seen
	h := kafka.Each(func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "bad" {
			return kafka.Poison(errors.New("bad"))
		}
		done.add(r)
		return nil
	})
	tried := make(logged, 1)
	c, err := kafka.NewConsumer(kafkatest.Config(t), group, []string{topic}, h, slog.New(slog.NewTextHandler(tried, nil)))
	require.NoError(t, err)
	stop := run(t, c)
	require.Contains(t, testkit.Receive(t, tried), "dead letter not written")
	stop()
	require.Empty(t, done.values())

	start(t, group, topic, h) // nothing was marked, so the bad record comes first again
	require.NoError(t, kafka.EnsureTopics(t.Context(), kafkatest.Config(t), kafka.Topic{Name: topic, Partitions: 1}))
	requireEventually(t, []string{"good"}, done.values)
	require.Equal(t, "bad", string(kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0].Value))
}

// logged is a log writer. It receives each line unless its buffer is full.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}
