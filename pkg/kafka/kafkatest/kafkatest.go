// Package kafkatest gives tests topics of their own on the development broker, and reads what was
// published.
package kafkatest

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/testkit"
	"urr.guru/proto/events"
)

// Config is the configuration of the development broker. One key signs for all services, and every
// topic that is not in the table of package events is written by the service Writer.
func Config(t testing.TB) kafka.Config {
	t.Helper()
	return WithKeys(kafka.Config{Brokers: backendtest.Kafka(t), ReplicationFactor: 1})
}

// Writer is the service that writes the topics of tests.
const Writer = "test"

// WithKeys adds the keys of tests to a configuration.
func WithKeys(cfg kafka.Config) kafka.Config {
	private, public := keys()
	cfg.Plain, cfg.SigningKey, cfg.PublicKeys = "development", config.Secret(private), map[string]config.Secret{}
	for _, service := range writers() {
		cfg.PublicKeys[service] = config.Secret(public)
	}
	cfg.Writer = func(topic string) string { return cmp.Or(events.Writer(topic), Writer) }
	return cfg
}

// Variables are the environment variables of a process of a test, without the brokers.
func Variables() map[string]string {
	private, public := keys()
	var entries []string
	for _, service := range writers() {
		entries = append(entries, service+":"+public)
	}
	return map[string]string{"KAFKA_PLAIN": "development", "EVENT_SIGNING_KEY": private, "EVENT_PUBLIC_KEYS": strings.Join(entries, ",")}
}

// Signer signs records with the keys of tests.
var Signer = sync.OnceValue(func() *kafka.Signer {
	s, err := kafka.NewSigner(WithKeys(kafka.Config{}))
	if err != nil {
		panic(err)
	}
	return s
})

func writers() []string {
	services := []string{Writer}
	for _, t := range events.All() {
		services = append(services, t.Producer)
	}
	slices.Sort(services)
	return slices.Compact(services)
}

// NewKeys makes a signing key and its public key, as PEM blocks.
func NewKeys() (private, public string) {
	open, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	key, keyErr := x509.MarshalPKCS8PrivateKey(secret)
	shown, err := x509.MarshalPKIXPublicKey(open)
	if err = errors.Join(keyErr, err); err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: shown}))
}

// keys are the same for the whole process.
var keys = sync.OnceValues(NewKeys)

// Topic makes a topic with 3 partitions and its dead-letter topic. Both exist until the test ends.
func Topic(t testing.TB) string {
	t.Helper()
	return TopicOf(t, 3)
}

// TopicOf is like Topic, with the given number of partitions.
func TopicOf(t testing.TB, partitions int32) string {
	t.Helper()
	name := Name("topic")
	ctx, cancel := testkit.Context(t)
	defer cancel()
	if err := kafka.EnsureTopics(ctx, Config(t), kafka.Topic{Name: name, Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Delete(t, name, name+kafka.DLQSuffix) })
	return name
}

// RedriveTopic makes the topic of a group's redriven letters. It exists until the test ends.
func RedriveTopic(t testing.TB, group string) {
	t.Helper()
	ctx, cancel := testkit.Context(t)
	defer cancel()
	if err := kafka.EnsureTopics(ctx, Config(t), kafka.TopicOfRedriven(group)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Delete(t, kafka.RedriveTopic(group)) })
}

// TopicWithoutDLQ makes a topic with one partition whose dead-letter topic does not exist. Both are
// deleted when the test ends.
func TopicWithoutDLQ(t testing.TB) string {
	t.Helper()
	name := Name("topic")
	ctx, cancel := testkit.Context(t)
	defer cancel()
	admin := kadm.NewClient(client(t))
	if _, err := admin.CreateTopic(ctx, 1, 1, map[string]*string{"retention.ms": new("-1")}, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	t.Cleanup(func() { Delete(t, name, name+kafka.DLQSuffix) })
	testkit.UntilNoError(t, func() error {
		topics, err := admin.ListTopics(ctx, name)
		return errors.Join(err, topics.Error())
	}, "the broker does not know topic %s", name)
	return name
}

// Configure changes one setting of a topic and waits until the broker reports the new value.
func Configure(t testing.TB, topic, setting, value string) {
	t.Helper()
	ctx, cancel := testkit.Context(t)
	defer cancel()
	admin := kadm.NewClient(client(t))
	changed, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: setting, Value: &value}}, topic)
	if err == nil && len(changed) > 0 {
		err = changed[0].Err
	}
	if err != nil {
		t.Fatalf("configure topic %s: %v", topic, err)
	}
	testkit.UntilNoError(t, func() error {
		configs, err := admin.DescribeTopicConfigs(ctx, topic)
		if err != nil {
			return err
		}
		shown := func(c kadm.Config) bool { return c.Key == setting && c.MaybeValue() == value }
		if !slices.ContainsFunc(configs[0].Configs, shown) {
			return errors.New("the setting is not there")
		}
		return nil
	}, "the broker does not show %s=%s of topic %s", setting, value, topic)
}

// Delete deletes topics when a test ends. The broker may accept records for a moment longer.
func Delete(t testing.TB, topics ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(backendtest.Kafka(t)...))
	if err != nil {
		t.Errorf("delete topics: %v", err)
		return
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopics(context.Background(), topics...); err != nil {
		t.Errorf("delete topics %v: %v", topics, err)
	}
}

// Name returns a unique name for a topic or group.
func Name(prefix string) string { return "test-" + prefix + "-" + strings.ToLower(rand.Text()[:16]) }

// Producer makes a producer of the development broker, closed when the test ends. Its calls wait up
// to an hour, so that they do not fail on a busy machine.
func Producer(t testing.TB) *kafka.Producer {
	t.Helper()
	return ProducerOf(t, Config(t))
}

// ProducerOf is like Producer, with the given configuration.
func ProducerOf(t testing.TB, cfg kafka.Config) *kafka.Producer {
	t.Helper()
	p, err := kafka.NewProducer(cfg, "test", kafka.WithTimeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// Prober makes a producer by kafka.NewProber, closed when the test ends.
func Prober(t testing.TB) *kafka.Producer {
	t.Helper()
	p, err := kafka.NewProber(Config(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// Read waits until a topic has n records and returns the first n, in order within each partition.
func Read(t testing.TB, topic string, n int) []kafka.Record {
	t.Helper()
	ctx, cancel := testkit.Context(t)
	defer cancel()
	cl := client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond))
	var recs []kafka.Record
	for len(recs) < n {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("topic %s has %d records, not %d", topic, len(recs), n)
		}
		fetches.EachRecord(func(r *kgo.Record) { recs = append(recs, kafka.FromKgo(r)) })
	}
	return recs
}

// ReadAll returns all records that a topic has now.
func ReadAll(t testing.TB, topic string) []kafka.Record {
	t.Helper()
	ctx, cancel := testkit.Context(t)
	defer cancel()
	ends, err := kadm.NewClient(client(t)).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatalf("end of topic %s: %v", topic, err)
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return Read(t, topic, n)
}

func client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(backendtest.Kafka(t)...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
