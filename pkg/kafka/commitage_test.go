package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
)

func TestCommitAge(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicOf(t, 3), kafkatest.Name("group")
	clock := testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	commitAge := kafka.NewCommitAge(kafkatest.Config(t), group, topic, clock.Now)
	client, err := kgo.NewClient(kgo.SeedBrokers(backendtest.Kafka(t)...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	age := func() time.Duration {
		// A broker that has just started has no coordinator of groups yet.
		testkit.UntilNoError(t, func() error { return commitAge.Measure(t.Context(), client) })
		oldest, ago, known := commitAge.Age()
		require.True(t, known)
		require.Zero(t, ago)
		return oldest
	}
	_, _, known := commitAge.Age()
	require.False(t, known, "nobody has been asked yet: that is not nothing")
	require.Zero(t, age(), "a topic without records")

	var recs []kafka.Record
	for i := range 30 {
		recs = append(recs, kafka.Record{
			Topic: topic, Key: []byte(fmt.Sprint(i)), Value: []byte("{}"), Time: clock.Now().Add(-time.Duration(30+i) * time.Second),
		})
	}
	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), recs...))
	first := age()
	require.Greater(t, first, 29*time.Second, "of a group that has never committed")

	consumer, err := kafka.NewConsumer(kafkatest.Config(t), group, []string{topic},
		kafka.Each(func(context.Context, kafka.Record) error { return nil }), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- consumer.Run(ctx) }()
	testkit.Until(t, func() bool { return age() == 0 }, "everything is applied")
	cancel()
	require.NoError(t, <-done)

	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), kafka.Record{
		Topic: topic, Key: []byte("k"), Value: []byte("{}"), Time: clock.Now().Add(-3 * time.Minute),
	}))
	require.Equal(t, 3*time.Minute, age(), "of a group without members")
	clock.Advance(time.Minute)
	oldest, ago, known := commitAge.Age()
	require.True(t, known)
	require.Equal(t, 4*time.Minute, oldest, "it grows while nobody asks")
	require.Equal(t, time.Minute, ago)
}
