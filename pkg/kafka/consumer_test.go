package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

// seen collects the records that handlers received.
type seen struct {
	mu   sync.Mutex
	recs []kafka.Record
}

func (s *seen) add(recs ...kafka.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recs = append(s.recs, recs...)
}

func (s *seen) values() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make([]string, len(s.recs))
	for i, r := range s.recs {
		values[i] = string(r.Value)
	}
	return values
}

// start runs a consumer until the returned function is called, at the latest until the test ends.
func start(t *testing.T, group, topic string, h kafka.Handler) (stop func()) {
	t.Helper()
	return run(t, consumer(t, group, topic, h))
}

func consumer(t *testing.T, group, topic string, h kafka.Handler) *kafka.Consumer {
	t.Helper()
	c, err := kafka.NewConsumer(kafkatest.Config(t), group, []string{topic}, h, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return c
}

func run(t *testing.T, c *kafka.Consumer) (stop func()) {
	t.Helper()
	r := launch(t, c)
	return r.stop
}

// running is a consumer that runs until it is stopped, at the latest until the test ends.
type running struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read after done is closed
}

func launch(t *testing.T, c *kafka.Consumer) *running {
	t.Helper()
	c.ShortenIntervals()
	r := &running{t: t, done: make(chan struct{})}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(r.done)
		r.err = c.Run(ctx)
	}()
	t.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	<-r.done
	require.NoError(r.t, r.err)
}

func publish(t *testing.T, topic, key string, values ...string) {
	t.Helper()
	recs := make([]kafka.Record, len(values))
	for i, v := range values {
		recs[i] = kafka.Record{Topic: topic, Key: []byte(key), Value: []byte(v)}
	}
	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), recs...))
}

func requireEventually(t *testing.T, want []string, got func() []string) {
	t.Helper()
	testkit.UntilNoError(t, func() error {
		if diff := cmp.Diff(want, got()); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func TestConsumesInOrderAndOnceAfterCleanStop(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.Topic(t), kafkatest.Name("group")
	publish(t, topic, "k", "1", "2", "3")
	var first, second seen
	stop := start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { first.add(r); return nil }))
	requireEventually(t, []string{"1", "2", "3"}, first.values)
	stop()
	publish(t, topic, "k", "4")
	start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { second.add(r); return nil }))
	requireEventually(t, []string{"4"}, second.values)
}

func TestTransientErrorKeepsTheOrder(t *testing.T) {
	t.Parallel()
	topic := kafkatest.Topic(t)
	publish(t, topic, "k", "1", "2", "3")
	var done seen
	failures := 2
	start(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "2" && failures > 0 {
			failures--
			return errs.ErrUnavailable
		}
		done.add(r)
		return nil
	}))
	requireEventually(t, []string{"1", "2", "3"}, done.values)
}

// A record that waits for its backend must block only its own partition.
func TestBlockedPartitionDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	topic := kafkatest.Topic(t)
	var done seen
	start(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "blocked" {
			return errs.ErrUnavailable
		}
		done.add(r)
		return nil
	}))
	publish(t, topic, "a", "blocked", "behind")
	blocked := kafkatest.Read(t, topic, 1)[0].Partition
	want := 0
	for i := range 30 {
		publish(t, topic, fmt.Sprint(i), "free")
	}
	for _, r := range kafkatest.Read(t, topic, 32) {
		if r.Partition != blocked {
			want++
		}
	}
	require.Positive(t, want)
	testkit.Until(t, func() bool { return len(done.values()) == want }, "the records of the free partitions")
	require.NotContains(t, done.values(), "behind")
}

func TestPoisonGoesToTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.Topic(t), kafkatest.Name("group")
	p := kafkatest.Producer(t)
	bad := []byte{0xff, 0x00, 'x'}
	require.NoError(t, p.Publish(t.Context(),
		kafka.Record{Topic: topic, Key: []byte("k"), Value: bad, Headers: map[string]string{kafka.HeaderID: "e1", "own": "kept"}},
		kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("good")}))
	var done seen
	start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		if r.EventID == "e1" {
			return kafka.Poison(errors.New("cannot be read"))
		}
		done.add(r)
		return nil
	}))
	requireEventually(t, []string{"good"}, done.values)
	letters := kafkatest.Read(t, topic+kafka.DLQSuffix, 1)
	require.Equal(t, bad, letters[0].Value)
	require.Equal(t, []byte("k"), letters[0].Key)
	require.Equal(t, "kept", letters[0].Headers["own"])
	require.Equal(t, group, letters[0].Headers[kafka.HeaderGroup])
	require.Contains(t, letters[0].Headers[kafka.HeaderError], "cannot be read")
	require.Contains(t, letters[0].Headers[kafka.HeaderOrigin], topic+"/")
}

// A panic may have other causes than the record, so the record is retried before it is
// dead-lettered.
func TestPanicIsRetried(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	publish(t, topic, "k", "once", "always", "good")
	var done seen
	calls := map[string]int{}
	c := consumer(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		value := string(r.Value)
		if calls[value]++; value == "always" || value == "once" && calls[value] == 1 {
			panic("a bug")
		}
		done.add(r)
		return nil
	}))
	c.NoBackoff()
	run(t, c)
	requireEventually(t, []string{"once", "good"}, done.values)
	require.Equal(t, 20, calls["always"])
	letter := kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0]
	require.Equal(t, "always", string(letter.Value))
	require.Contains(t, letter.Headers[kafka.HeaderError], "a bug")
}

// An error that is not known to be transient must not block its partition forever.
func TestPersistentErrorIsDeadLettered(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	publish(t, topic, "k", "1", "stuck", "2")
	var done seen
	attempts := 0
	c := consumer(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "stuck" {
			attempts++
			return errs.ErrConflict
		}
		done.add(r)
		return nil
	}))
	c.NoBackoff()
	run(t, c)
	requireEventually(t, []string{"1", "2"}, done.values)
	require.Equal(t, 20, attempts)
	require.Equal(t, "stuck", string(kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0].Value))
}

// A redriven letter is read by its group alone, as a record of its first topic.
func TestRedrivenRecordIsForItsGroupOnly(t *testing.T) {
	t.Parallel()
	topic, mine, other := kafkatest.TopicOf(t, 1), kafkatest.Name("mine"), kafkatest.Name("other")
	kafkatest.RedriveTopic(t, mine)
	publish(t, topic, "k", "bad", "good")
	var a, b seen
	repaired := make(chan struct{})
	start(t, mine, topic, kafka.Batch(10, func(_ context.Context, recs []kafka.Record) error {
		for _, r := range recs {
			select {
			case <-repaired:
			default:
				if string(r.Value) == "bad" {
					return kafka.Poison(errors.New("bad"))
				}
			}
		}
		a.add(recs...)
		return nil
	}))
	start(t, other, topic, kafka.Batch(10, func(_ context.Context, r []kafka.Record) error { b.add(r...); return nil }))
	letter := kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0]
	requireEventually(t, []string{"good"}, a.values)
	close(repaired)
	forged := kafka.RedrivenRecord(mine, letter)
	forged.Value = []byte("worse")
	foreign := kafka.RedrivenRecord(mine, letter)
	foreign.Headers[kafka.HeaderOrigin] = "\xff/0/0"
	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), forged, foreign, kafka.RedrivenRecord(mine, letter)))
	requireEventually(t, []string{"good", "bad"}, a.values)
	require.Equal(t, topic, a.recs[1].Topic)
	require.Equal(t, kafka.RedriveTopic(mine), a.recs[1].ReadFrom)
	requireEventually(t, []string{"bad", "good"}, b.values)
	letters := kafkatest.ReadAll(t, topic+kafka.DLQSuffix)
	require.Len(t, letters, 2, "the foreign one is dropped")
	require.Equal(t, "worse", string(letters[1].Value))
	require.Equal(t, topic+"/0/0", letters[1].Headers[kafka.HeaderOrigin], "where it was first read")
}

func TestOnlyBadRecordOfBatchIsDeadLettered(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	publish(t, topic, "k", "1", "bad", "2", "3")
	var done seen
	largest := 0
	start(t, kafkatest.Name("group"), topic, kafka.Batch(100, func(_ context.Context, recs []kafka.Record) error {
		largest = max(largest, len(recs))
		for _, r := range recs {
			if string(r.Value) == "bad" {
				return kafka.Poison(errors.New("bad"))
			}
		}
		done.add(recs...)
		return nil
	}))
	requireEventually(t, []string{"1", "2", "3"}, done.values)
	require.Equal(t, 4, largest)
	require.Equal(t, "bad", string(kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0].Value))
}

// Installations that share a broker do not see each other's records, and handlers do not see the
// prefixes.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	prefix, topic := kafkatest.Name("one")+".", kafkatest.Topic(t)
	cfg := kafkatest.Config(t)
	cfg.TopicPrefix, cfg.GroupPrefix = prefix, prefix
	require.NoError(t, kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: topic}))
	t.Cleanup(func() { kafkatest.Delete(t, prefix+topic, prefix+topic+kafka.DLQSuffix) })
	require.NoError(t, kafkatest.ProducerOf(t, cfg).Publish(t.Context(), kafka.Record{Topic: topic, Value: []byte("1")}))

	var mine, others seen
	c, err := kafka.NewConsumer(cfg, "group", []string{topic}, kafka.Each(func(_ context.Context, r kafka.Record) error {
		mine.add(r)
		return kafka.Poison(errors.New("bad"))
	}), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	run(t, c)
	start(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, r kafka.Record) error { others.add(r); return nil }))
	requireEventually(t, []string{"1"}, mine.values)
	require.Equal(t, topic, mine.recs[0].Topic)
	letter := kafkatest.Read(t, prefix+topic+kafka.DLQSuffix, 1)[0]
	require.Equal(t, "group", letter.Headers[kafka.HeaderGroup])
	require.Empty(t, others.values())
}

// A topic is created by its publisher at any time. A consumer that starts earlier waits for it.
func TestConsumerWaitsForItsTopic(t *testing.T) {
	t.Parallel()
	topic := kafkatest.Name("later")
	var got seen
	c := consumer(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, rec kafka.Record) error {
		got.add(rec)
		return nil
	}))
	defer run(t, c)()
	t.Cleanup(func() { kafkatest.Delete(t, topic, topic+kafka.DLQSuffix) })
	require.NoError(t, kafka.EnsureTopics(t.Context(), kafkatest.Config(t), kafka.Topic{Name: topic}))
	publish(t, topic, "k", "a", "b")
	requireEventually(t, []string{"a", "b"}, got.values)
}
