package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
)

// A partition whose backlog was full when it was taken away, and that comes back, must be read on.
func TestAPartitionThatComesBackIsReadOn(t *testing.T) {
	t.Parallel()
	const each = 5000 // more than a partition may hold in memory
	topic, group := kafkatest.TopicOf(t, 2), kafkatest.Name("group")
	p := kafkatest.Producer(t)
	for from := 0; from < 2*each; from += 500 {
		recs := make([]kafka.Record, 500)
		for i := range recs {
			recs[i] = kafka.Record{Topic: topic, Key: fmt.Append(nil, from+i), Value: fmt.Append(nil, from+i)}
		}
		require.NoError(t, p.Publish(t.Context(), recs...))
	}

	release := make(chan struct{})
	var done seen
	c, err := kafka.NewConsumer(kafkatest.Config(t), group, []string{topic}, kafka.Each(func(ctx context.Context, r kafka.Record) error {
		select {
		case <-release:
			done.add(r)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	run(t, c)
	require.Eventually(t, func() bool { return c.Paused() == 2 }, 30*time.Second, 10*time.Millisecond)

	joined := make(chan struct{}, 1)
	leave := start(t, group, topic, kafka.Each(func(ctx context.Context, _ kafka.Record) error {
		select {
		case joined <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	<-joined // it has one of the two
	leave()
	close(release)
	different := func() int {
		values := done.values()
		slices.Sort(values)
		return len(slices.Compact(values))
	}
	require.Eventually(t, func() bool { return different() == 2*each }, 60*time.Second, 50*time.Millisecond)
}
