package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/telemetry/metricstest"
)

// genuine reports whether records of "topic", written by "ticket", are accepted with these keys.
func genuine(t *testing.T, public string, recs ...*kgo.Record) (list []bool) {
	t.Helper()
	cfg := kafka.Config{
		PublicKeys: map[string]config.Secret{"ticket": config.Secret(public)}, Writer: func(string) string { return "ticket" },
	}
	verify, err := kafka.Verifier(cfg, "topic")
	require.NoError(t, err)
	for _, r := range recs {
		list = append(list, verify("topic", r) == nil)
	}
	return list
}

func records(n int) (recs []*kgo.Record, topics []string) {
	for i := range n {
		topics = append(topics, "topic")
		recs = append(recs, &kgo.Record{Key: []byte("k"), Value: fmt.Append(nil, i), Headers: []kgo.RecordHeader{
			{Key: kafka.HeaderID, Value: fmt.Append(nil, i)}, {Key: kafka.HeaderType, Value: []byte("SOLD")},
		}})
	}
	return recs, topics
}

func TestSignaturesOfBatches(t *testing.T) {
	t.Parallel()
	private, public := kafkatest.NewKeys()
	_, others := kafkatest.NewKeys()
	for _, n := range []int{1, 2, 3, 7, 63, 64, 65, 200} {
		recs, topics := records(n)
		require.NoError(t, kafka.SignRecords(config.Secret(private), topics, recs))
		require.NotContains(t, genuine(t, public, recs...), false, "%d records", n)
		require.NotContains(t, genuine(t, others, recs...), true, "%d records", n)
		require.NotContains(t, genuine(t, others+public, recs...), false, "several keys")
	}
}

// Whatever is changed in a signed record, also between its parts, it is refused.
func TestChangedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	private, public := kafkatest.NewKeys()
	for name, change := range map[string]func(r, other *kgo.Record){
		"value":     func(r, _ *kgo.Record) { r.Value = []byte("x") },
		"key":       func(r, _ *kgo.Record) { r.Key = nil },
		"id":        func(r, _ *kgo.Record) { r.Headers[0].Value = []byte("x") },
		"no id":     func(r, _ *kgo.Record) { r.Headers = r.Headers[1:] },
		"type":      func(r, _ *kgo.Record) { r.Headers[1].Value = []byte("REFUNDED") },
		"shifted":   func(r, _ *kgo.Record) { r.Key, r.Value = []byte("k0"), nil },
		"no header": func(r, _ *kgo.Record) { r.Headers = r.Headers[:2] },
		"of other":  func(r, other *kgo.Record) { r.Headers[2] = other.Headers[2] },
		"first two": func(r, _ *kgo.Record) {
			r.Headers = slices.Insert(r.Headers, 0, kgo.RecordHeader{Key: kafka.HeaderType, Value: []byte("REFUNDED")})
		},
		"another type behind": func(r, _ *kgo.Record) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: kafka.HeaderType, Value: []byte("REFUNDED")})
		},
		"another id behind": func(r, other *kgo.Record) { r.Headers = append(r.Headers, other.Headers[0]) },
	} {
		recs, topics := records(5)
		require.NoError(t, kafka.SignRecords(config.Secret(private), topics, recs))
		change(recs[0], recs[1])
		require.Equal(t, []bool{false, true, true, true, true}, genuine(t, public, recs...), name)
	}
	recs, topics := records(5)
	require.NoError(t, kafka.SignRecords(config.Secret(private), topics, recs))
	signature := recs[3].Headers[2].Value
	for i := range signature {
		changed := slices.Clone(signature)
		changed[i] ^= 1
		recs[3].Headers[2].Value = changed
		require.Equal(t, []bool{false}, genuine(t, public, recs[3]), "byte %d", i)
		recs[3].Headers[2].Value = signature[:i]
		require.Equal(t, []bool{false}, genuine(t, public, recs[3]), "%d bytes", i)
	}
	recs[3].Headers[2].Value = append(signature, signature[len(signature)-32:]...)
	require.Equal(t, []bool{false}, genuine(t, public, recs[3]), "a longer path")
	topics[0] = "another"
	moved, _ := records(5)
	require.NoError(t, kafka.SignRecords(config.Secret(private), topics, moved))
	require.Equal(t, []bool{false, true, true, true, true}, genuine(t, public, moved...), "another topic")
}

// Nobody but the service that writes a topic reaches its handlers. The rest are dead letters.
func TestOnlyTheWriterIsBelieved(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.TopicOf(t, 1), kafkatest.Name("group")
	cfg := kafkatest.Config(t)
	thief, thiefs := kafkatest.NewKeys()
	cfg.PublicKeys["stats"] = config.Secret(thiefs) // a captured service that signs nothing in this topic
	captured := cfg
	captured.SigningKey = config.Secret(thief)
	plain, err := kafka.NewRedriver(cfg, "plain")
	require.NoError(t, err)
	t.Cleanup(func() { _ = plain.Close(context.Background()) })

	record := func(value string) kafka.Record {
		return kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte(value), Headers: map[string]string{kafka.HeaderID: value}}
	}
	publish(t, topic, "k", "1")
	require.NoError(t, plain.Publish(t.Context(), record("unsigned")))
	publish(t, topic, "k", "2", "3")
	require.NoError(t, kafkatest.ProducerOf(t, captured).Publish(t.Context(), record("another service")))
	signed := kafkatest.Producer(t).Sign(record("4"))
	changed := signed
	changed.Value = []byte("changed")
	require.NoError(t, plain.Publish(t.Context(), changed, signed))

	var done seen
	c, err := kafka.NewConsumer(cfg, group, []string{topic}, kafka.Batch(100, func(_ context.Context, recs []kafka.Record) error {
		done.add(recs...)
		return nil
	}), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	run(t, c)
	requireEventually(t, []string{"1", "2", "3", "4"}, done.values)
	var letters []string
	for _, l := range kafkatest.Read(t, topic+kafka.DLQSuffix, 3) {
		letters = append(letters, string(l.Value)+": "+l.Headers[kafka.HeaderError])
	}
	require.Equal(t, []string{
		"unsigned: poison: it is not signed",
		"another service: poison: its signature is not by a key of the service that writes this topic",
		"changed: poison: its signature does not fit",
	}, letters)
	refused, _ := metricstest.MetricSum(t, "urr_records_refused_total", map[string]string{"group": group})
	require.InDelta(t, 3, refused, 0)
}

// A consumer does not start without the keys of a topic's writer, nor a producer without its own.
func TestKeysAreNeeded(t *testing.T) {
	t.Parallel()
	_, public := kafkatest.NewKeys()
	valid := kafkatest.WithKeys(kafka.Config{Brokers: []string{"127.0.0.1:1"}})
	for name, tc := range map[string]struct {
		change func(*kafka.Config)
		want   string
	}{
		"none":         {func(c *kafka.Config) { c.PublicKeys = nil }, `EVENT_PUBLIC_KEYS is not set: must have the keys of the service "payment", which writes payment-events`},
		"of others":    {func(c *kafka.Config) { delete(c.PublicKeys, "payment") }, "EVENT_PUBLIC_KEYS"},
		"no PEM block": {func(c *kafka.Config) { c.PublicKeys["payment"] = "x" }, `EVENT_PUBLIC_KEYS="payment": must be PEM blocks`},
		"a private key": {
			func(c *kafka.Config) { c.PublicKeys["payment"] = c.SigningKey },
			`EVENT_PUBLIC_KEYS="payment": PEM block 1 must be an Ed25519 public key`,
		},
	} {
		cfg := valid
		cfg.PublicKeys = maps.Clone(valid.PublicKeys)
		tc.change(&cfg)
		_, err := kafka.NewConsumer(cfg, "g", []string{"payment-events"}, kafka.Each(nil), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, tc.want, name)
	}
	unknown, _ := kafkatest.NewKeys()
	for _, key := range []string{"", "x", public, unknown} {
		cfg := valid
		cfg.SigningKey = config.Secret(key)
		_, err := kafka.NewProducer(cfg, "test")
		require.ErrorContains(t, err, "EVENT_SIGNING_KEY", key)
	}
}

// A key is replaced while the processes run: first consumers learn the new one, then it signs.
func TestKeysAreReplaced(t *testing.T) {
	t.Parallel()
	cfg := kafkatest.Config(t)
	topic, folder := kafkatest.TopicOf(t, 1), t.TempDir()
	first, firstPublic := kafkatest.NewKeys()
	second, secondPublic := kafkatest.NewKeys()
	cfg.SigningKey, cfg.PublicKeys = config.Secret(first), map[string]config.Secret{kafkatest.Writer: config.Secret(firstPublic)}
	cfg.SigningKeyFile, cfg.PublicKeysFile = filepath.Join(folder, "key"), filepath.Join(folder, "public")
	require.NoError(t, os.Mkdir(cfg.PublicKeysFile, 0o700))
	write := func(path, content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	write(cfg.SigningKeyFile, first)
	write(filepath.Join(cfg.PublicKeysFile, kafkatest.Writer), firstPublic)

	var done seen
	c, err := kafka.NewConsumer(cfg, kafkatest.Name("group"), []string{topic}, kafka.Each(func(_ context.Context, r kafka.Record) error {
		done.add(r)
		return nil
	}), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c.RereadKeys()
	run(t, c)
	producer := kafkatest.ProducerOf(t, cfg)
	producer.RereadKeys()
	send := func(value string) {
		require.NoError(t, producer.Publish(t.Context(), kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}))
	}
	send("by the first")
	requireEventually(t, []string{"by the first"}, done.values)
	write(filepath.Join(cfg.PublicKeysFile, kafkatest.Writer), firstPublic+secondPublic)
	send("still by the first")
	unknown, _ := kafkatest.NewKeys()
	write(cfg.SigningKeyFile, unknown)
	send("nobody knows the new key yet")
	write(cfg.SigningKeyFile, "half a k")
	send("a broken file changes nothing")
	write(cfg.SigningKeyFile, second)
	send("by the second")
	requireEventually(t, []string{"by the first", "still by the first", "nobody knows the new key yet", "a broken file changes nothing", "by the second"}, done.values)
	require.Empty(t, kafkatest.ReadAll(t, topic+kafka.DLQSuffix))
}
