package kafka_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
)

// Read passes on the records that the group has read, in order and in a range of offsets, without
// those that are not genuine.
func TestReplay(t *testing.T) {
	t.Parallel()
	topic, cfg := kafkatest.TopicOf(t, 2), kafkatest.Config(t)
	producer := kafkatest.ProducerOf(t, cfg)
	const all = 500
	var records []kafka.Record
	for i := range all {
		headers := map[string]string{}
		if i%3 == 1 {
			headers[kafka.HeaderSignature] = "forged"
		}
		records = append(records, kafka.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i), Headers: headers})
	}
	require.NoError(t, producer.Publish(t.Context(), records...))
	ends := kafka.Offsets{}
	for _, rec := range kafkatest.ReadAll(t, topic) {
		ends[rec.Partition] = max(ends[rec.Partition], rec.Offset+1)
	}

	replay, err := kafka.NewReplay(cfg, "mine")
	require.NoError(t, err)
	require.NoError(t, replay.CheckComplete(t.Context(), topic))
	require.NoError(t, replay.CheckComplete(t.Context(), topic+"-absent"))
	at, seen := kafka.Offsets{}, map[string]bool{}
	read := func(from, to kafka.Offsets) {
		require.NoError(t, replay.Read(t.Context(), topic, from, to, func(_ context.Context, partition int32, recs []kafka.Record, next int64) error {
			for _, rec := range recs {
				require.Equal(t, topic, rec.Topic)
				require.Equal(t, partition, rec.Partition)
				require.GreaterOrEqual(t, rec.Offset, at[partition])
				require.Less(t, rec.Offset, next)
				require.NotEqual(t, "forged", rec.Headers[kafka.HeaderSignature])
				require.False(t, seen[string(rec.Value)])
				seen[string(rec.Value)] = true
			}
			at[partition] = next
			return nil
		}))
	}
	read(nil, kafka.Offsets{0: ends[0] / 2})
	require.Equal(t, kafka.Offsets{0: ends[0] / 2}, at)
	read(at, ends)
	require.Equal(t, ends, at)
	require.Len(t, seen, (all+2)/3+all/3)
	read(at, ends) // no record is left to read
}

func TestReplayRefusesTopicsThatLoseRecords(t *testing.T) {
	t.Parallel()
	cfg := kafkatest.Config(t)
	replay, err := kafka.NewReplay(cfg, "mine")
	require.NoError(t, err)
	short := kafkatest.Topic(t)
	kafkatest.Configure(t, short, "retention.ms", "604800000")
	require.ErrorContains(t, replay.CheckComplete(t.Context(), short), "retention.ms")

	truncated := kafkatest.TopicOf(t, 1)
	require.NoError(t, kafkatest.ProducerOf(t, cfg).Publish(t.Context(), kafka.Record{Topic: truncated, Value: []byte("1")}, kafka.Record{Topic: truncated, Value: []byte("2")}))
	client, err := kgo.NewClient(kgo.SeedBrokers(backendtest.Kafka(t)...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	offsets := kadm.Offsets{}
	offsets.AddOffset(truncated, 0, 1, -1)
	_, err = kadm.NewClient(client).DeleteRecords(t.Context(), offsets)
	require.NoError(t, err)
	require.ErrorContains(t, replay.CheckComplete(t.Context(), truncated), "begins at offset 1")
}
