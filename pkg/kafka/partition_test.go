package kafka_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
)

func TestPartitionIsKeyHash(t *testing.T) {
	t.Parallel()
	const partitions, records = 7, 50
	topic, p := kafkatest.TopicOf(t, partitions), kafkatest.Producer(t)
	require.Zero(t, p.Partitions(topic), "not known yet")
	for i := range records {
		key := []byte(fmt.Sprint("키-", i))
		require.NoError(t, p.Publish(t.Context(), kafka.Record{Topic: topic, Key: key, Value: []byte("{}")}))
	}
	require.NoError(t, p.Publish(t.Context(), kafka.Record{Topic: topic, Value: []byte("{}")}), "without a key")
	require.Equal(t, partitions, p.Partitions(topic))
	for _, r := range kafkatest.Read(t, topic, records+1) {
		if r.Key != nil {
			require.Equal(t, kafka.KeyHash(r.Key)%partitions, r.Partition, string(r.Key))
		}
	}
}

// The values are those of Kafka's own tests (org.apache.kafka.common.utils.UtilsTest.testMurmur2),
// without their sign bit.
func TestKeyHash(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		require.Equal(t, want&0x7fffffff, kafka.KeyHash([]byte(key)), key)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	require.True(t, kafka.Refused(fmt.Errorf("publish: %w", kerr.MessageTooLarge)))
	require.True(t, kafka.Refused(kerr.InvalidRecord))
	for _, err := range []error{nil, errors.New("away"), kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.NotEnoughReplicas} {
		require.False(t, kafka.Refused(err))
	}
}
