package outbox_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
)

// A missing topic is retried forever; its events are published when it is created.
func TestMissingTopicDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	pool, topic, missing := postgrestest.New(t, outbox.Migrations), kafkatest.TopicOf(t, 3), kafkatest.Name("missing")
	require.NoError(t, insert(t.Context(), pool, manyEvents(missing, 20)...))
	run(t, pool, kafkatest.Producer(t), outbox.Options{Prober: kafkatest.Prober(t)})
	require.NoError(t, insert(t.Context(), pool, manyEvents(topic, 20)...))
	require.Len(t, kafkatest.Read(t, topic, 20), 20)
	t.Cleanup(func() { kafkatest.Delete(t, missing, missing+kafka.DLQSuffix) })
	require.NoError(t, kafka.EnsureTopics(t.Context(), kafkatest.Config(t), kafka.Topic{Name: missing}))
	require.Len(t, kafkatest.Read(t, missing, 20), 20)
	waitEmpty(t, pool)
}

// The broker refuses the whole batch. Only the key of the record that is too large for the topic
// waits, until an operator has raised the limit.
func TestRecordTooLargeForItsTopicParksItsKey(t *testing.T) {
	t.Parallel()
	pool, topic := postgrestest.New(t, outbox.Migrations), limited(t, "2000")
	large := event(topic, "large", 1)
	large.Payload = caller(randomText(10_000), 1)
	require.NoError(t, insert(t.Context(), pool, append([]outbox.Event{large, event(topic, "large", 2)}, manyEvents(topic, 5)...)...))
	run(t, pool, kafkatest.Producer(t), outbox.Options{Prober: kafkatest.Prober(t)})
	kafkatest.Read(t, topic, 5)
	testkit.Until(t, func() bool { return pending(t, pool) == 2 }, "the others are published")
	limit(t, topic, "1000000")
	testkit.Until(t, func() bool { // the key may be parked again until the broker knows the new limit
		_, err := outbox.Redrive(t.Context(), pool, topic, "large")
		require.NoError(t, err)
		return pending(t, pool) == 0
	}, "the key is published")
	var versions []string
	for _, r := range kafkatest.Read(t, topic, 7) {
		if string(r.Key) == "large" {
			versions = append(versions, string(r.Value)[strings.LastIndex(string(r.Value), `"epoch"`):][:9])
		}
	}
	require.Equal(t, []string{`"epoch":1`, `"epoch":2`}, versions)
}

// randomText returns text that does not compress to less than half.
func randomText(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()
}

const maxBytes = "max.message.bytes"

// limited makes a topic of one partition with a limit of a record's size. The limit is set at
// creation: one set later reaches the broker some time after the controller has accepted it.
func limited(t *testing.T, bytes string) string {
	t.Helper()
	topic := kafkatest.Name("limited")
	_, err := admin(t).CreateTopic(t.Context(), 1, 1, map[string]*string{maxBytes: &bytes}, topic)
	require.NoError(t, err)
	t.Cleanup(func() { kafkatest.Delete(t, topic) })
	return topic
}

func limit(t *testing.T, topic, bytes string) {
	t.Helper()
	res, err := admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: maxBytes, Value: &bytes}}, topic)
	require.NoError(t, err)
	require.NoError(t, res[0].Err)
}

func admin(t *testing.T) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(backendtest.Kafka(t)...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}
