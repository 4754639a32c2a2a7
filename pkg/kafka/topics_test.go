package kafka_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
)

// member makes a consumer of several topics that adds their records to s.
func member(t *testing.T, s *seen, log *slog.Logger, group string, topics ...string) *kafka.Consumer {
	t.Helper()
	c, err := kafka.NewConsumer(kafkatest.Config(t), group, topics, kafka.Each(func(_ context.Context, rec kafka.Record) error {
		s.add(rec)
		return nil
	}), log)
	require.NoError(t, err)
	return c
}

// If a service is not deployed, its topic does not exist. Consumers of that topic and other topics
// work, and neither their log nor their metrics report a fault.
func TestMissingTopicIsNoFault(t *testing.T) {
	t.Parallel()
	present, missing, group := kafkatest.TopicOf(t, 1), kafkatest.Name("missing"), kafkatest.Name("group")
	var got seen
	var log bytes.Buffer
	c := member(t, &got, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), group, missing, present)
	c.LagEvery(50 * time.Millisecond)
	stop := run(t, c)
	publish(t, present, "k", "1")
	requireEventually(t, []string{"1"}, got.values)
	testkit.Until(t, func() bool {
		unread, measured := lag(t, group, present)
		known, ok := metricstest.MetricSum(t, "urr_consumer_lag_known", map[string]string{"group": group})
		return measured && unread == 0 && ok && known == 1
	}, "the lag of the topic that exists is measured")

	require.NoError(t, kafka.EnsureTopics(t.Context(), kafkatest.Config(t), kafka.Topic{Name: missing}))
	t.Cleanup(func() { kafkatest.Delete(t, missing, missing+kafka.DLQSuffix) })
	publish(t, missing, "k", "2")
	requireEventually(t, []string{"1", "2"}, got.values)
	stop()
	require.NotContains(t, log.String(), missing)
}

// During an upgrade some members of a group do not know an added topic yet. Its partitions go to
// the other members, whichever member assigns them.
func TestTopicThatOnlySomeMembersConsume(t *testing.T) {
	t.Parallel()
	for name, nextFirst := range map[string]bool{"a member without the topic assigns": false, "a member with it assigns": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both, added, group := kafkatest.Topic(t), kafkatest.Topic(t), kafkatest.Name("group")
			var previous, next seen
			members := []*kafka.Consumer{
				member(t, &previous, slog.New(slog.DiscardHandler), group, both),
				member(t, &next, slog.New(slog.DiscardHandler), group, both, added),
			}
			if nextFirst {
				slices.Reverse(members)
			}
			publish(t, both, "k", "1")
			run(t, members[0]) // the first member is the leader, which assigns the partitions
			// Each once, since a rebalance may deliver a record again.
			values := func() []string {
				return slices.Compact(slices.Sorted(slices.Values(slices.Concat(previous.values(), next.values()))))
			}
			requireEventually(t, []string{"1"}, values)
			run(t, members[1])
			publish(t, added, "k", "2")
			publish(t, both, "k", "3")
			requireEventually(t, []string{"1", "2", "3"}, values)
			require.NotContains(t, previous.values(), "2")
		})
	}
}

// A topic that another tool made with its defaults is refused, unless MayForget is set.
func TestTopicThatDeletesRecordsIsRefused(t *testing.T) {
	t.Parallel()
	for setting, value := range map[string]string{"retention.ms": "604800000", "retention.bytes": "1000000", "cleanup.policy": "compact"} {
		topic := kafkatest.TopicOf(t, 1)
		kafkatest.Configure(t, topic, setting, value)
		err := kafka.EnsureTopics(t.Context(), kafkatest.Config(t), kafka.Topic{Name: topic, Partitions: 1})
		require.ErrorContains(t, err, "topic "+topic+" has "+setting+"="+value)
		require.NoError(t, kafka.EnsureTopics(t.Context(), kafkatest.Config(t), kafka.Topic{Name: topic, Partitions: 1, MayForget: true}))
	}
}
