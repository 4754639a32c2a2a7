package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen collects what handlers were given.
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
	c, err := kafka.NewConsumer(kafkatest.Config(t), group, []string{topic}, h, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return run(t, c)
}

func run(t *testing.T, c *kafka.Consumer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("consumer: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func publish(t *testing.T, topic, key string, values ...string) {
	t.Helper()
	recs := make([]kafka.Record, len(values))
	for i, v := range values {
		recs[i] = kafka.Record{Topic: topic, Key: []byte(key), Value: []byte(v)}
	}
	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), recs...))
}

func eventually(t *testing.T, want []string, got func() []string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(want, got()) }, time.Minute, 10*time.Millisecond, "%v", got)
}

func TestConsumesInOrderAndOnlyOnceAfterACleanStop(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.Topic(t), kafkatest.Name("group")
	publish(t, topic, "k", "1", "2", "3")
	var first, second seen
	stop := start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { first.add(r); return nil }))
	eventually(t, []string{"1", "2", "3"}, first.values)
	stop()
	publish(t, topic, "k", "4")
	start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { second.add(r); return nil }))
	eventually(t, []string{"4"}, second.values)
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
	eventually(t, []string{"1", "2", "3"}, done.values)
}

// A record that waits for its backend must hold up its own partition only.
func TestABlockedPartitionDoesNotBlockTheOthers(t *testing.T) {
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
	require.Eventually(t, func() bool { return len(done.values()) == want }, time.Minute, 10*time.Millisecond)
	require.NotContains(t, done.values(), "behind")
}

func TestPoisonGoesToTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.Topic(t), kafkatest.Name("group")
	p := kafkatest.Producer(t)
	bad := []byte{0xff, 0x00, 'x'}
	require.NoError(t, p.Publish(t.Context(),
		kafka.Record{Topic: topic, Key: []byte("k"), Value: bad, Headers: map[string]string{kafka.HeaderID: "e1", "own": "kept"}},
		kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("panic")},
		kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("good")}))
	var done seen
	start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error {
		switch {
		case r.EventID == "e1":
			return kafka.Poison(errors.New("cannot be read"))
		case string(r.Value) == "panic":
			panic("a bug")
		}
		done.add(r)
		return nil
	}))
	eventually(t, []string{"good"}, done.values)
	letters := kafkatest.Read(t, topic+kafka.DLQSuffix, 2)
	require.Equal(t, bad, letters[0].Value)
	require.Equal(t, []byte("k"), letters[0].Key)
	require.Equal(t, "kept", letters[0].Headers["own"])
	require.Equal(t, group, letters[0].Headers[kafka.HeaderGroup])
	require.Contains(t, letters[0].Headers[kafka.HeaderError], "cannot be read")
	require.Contains(t, letters[0].Headers[kafka.HeaderOrigin], topic+"/")
	require.Contains(t, letters[1].Headers[kafka.HeaderError], "a bug")
}

// An error that is not known to pass must not hold up its partition for ever.
func TestAnErrorThatStaysIsPutAside(t *testing.T) {
	t.Parallel()
	topic := kafkatest.TopicOf(t, 1)
	publish(t, topic, "k", "1", "stuck", "2")
	var done seen
	attempts := 0
	c, err := kafka.NewConsumer(kafkatest.Config(t), kafkatest.Name("group"), []string{topic},
		kafka.Each(func(_ context.Context, r kafka.Record) error {
			if string(r.Value) == "stuck" {
				attempts++
				return errs.ErrConflict
			}
			done.add(r)
			return nil
		}), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	c.Impatient()
	run(t, c)
	eventually(t, []string{"1", "2"}, done.values)
	require.Equal(t, 20, attempts)
	require.Equal(t, "stuck", string(kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0].Value))
}

// A redriven dead letter is for the group that could not process it; the others have had it.
func TestARedrivenRecordIsForItsGroupOnly(t *testing.T) {
	t.Parallel()
	topic, mine, other := kafkatest.Topic(t), kafkatest.Name("mine"), kafkatest.Name("other")
	rec := kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("again"), Headers: map[string]string{kafka.HeaderGroup: mine}}
	last := kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte("last")}
	require.NoError(t, kafkatest.Producer(t).Publish(t.Context(), rec, last))
	var a, b seen
	start(t, mine, topic, kafka.Batch(10, func(_ context.Context, r []kafka.Record) error { a.add(r...); return nil }))
	start(t, other, topic, kafka.Batch(10, func(_ context.Context, r []kafka.Record) error { b.add(r...); return nil }))
	eventually(t, []string{"again", "last"}, a.values)
	eventually(t, []string{"last"}, b.values)
}

func TestABadRecordInABatchIsPutAsideAlone(t *testing.T) {
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
	eventually(t, []string{"1", "2", "3"}, done.values)
	require.Equal(t, 4, largest)
	require.Equal(t, "bad", string(kafkatest.Read(t, topic+kafka.DLQSuffix, 1)[0].Value))
}

// When a second member joins, partitions move; nothing is lost, and no partition is processed by two at once.
func TestRebalanceLosesNothing(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.Topic(t), kafkatest.Name("group")
	var mu sync.Mutex
	busy, times := make(map[int32]bool), make(map[string]int)
	handle := func(r kafka.Record) {
		mu.Lock()
		overlap := busy[r.Partition]
		busy[r.Partition] = true
		mu.Unlock()
		if overlap {
			t.Errorf("partition %d is processed twice at once", r.Partition)
		}
		time.Sleep(time.Millisecond) // work
		mu.Lock()
		defer mu.Unlock()
		busy[r.Partition] = false
		times[string(r.Value)]++
	}
	sent, p := 0, kafkatest.Producer(t)
	send := func() {
		assert.NoError(t, p.Publish(t.Context(), kafka.Record{Topic: topic, Key: fmt.Append(nil, sent%7), Value: fmt.Append(nil, sent)}))
		sent++
	}

	stop := start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { handle(r); return nil }))
	for range 100 {
		send()
	}
	joined := make(chan struct{})
	join := sync.OnceFunc(func() { close(joined) })
	start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { join(); handle(r); return nil }))
	// Who leaves while another joins may have to leave without its last commit.
	require.Eventually(t, func() bool {
		send()
		select {
		case <-joined:
			return true
		default:
			return false
		}
	}, time.Minute, time.Millisecond)
	stop()
	for range 100 {
		send()
	}
	total := func() int { mu.Lock(); defer mu.Unlock(); return len(times) }
	require.Eventually(t, func() bool { return total() == sent }, time.Minute, 10*time.Millisecond)
	for v, k := range times {
		require.Equal(t, 1, k, "record %s: both left and joined in order, so nothing comes twice", v)
	}
}

// A handler that does not end must not keep the process: its context is cancelled after the grace, and the record comes again.
func TestStopCancelsAHandlerThatHangs(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.Topic(t), kafkatest.Name("group")
	publish(t, topic, "k", "1")
	entered := make(chan struct{})
	stop := start(t, group, topic, kafka.Each(func(ctx context.Context, _ kafka.Record) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}))
	<-entered
	stop()
	var done seen
	start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { done.add(r); return nil }))
	eventually(t, []string{"1"}, done.values)
}

// Installations that share a broker see nothing of each other, and nothing of the prefixes.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	prefix, topic := kafkatest.Name("one")+".", kafkatest.Topic(t)
	cfg := kafkatest.Config(t)
	cfg.TopicPrefix, cfg.GroupPrefix = prefix, prefix
	require.NoError(t, kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: topic}))
	t.Cleanup(func() { kafkatest.Delete(t, prefix+topic, prefix+topic+kafka.DLQSuffix) })
	p, err := kafka.NewProducer(cfg, "test")
	require.NoError(t, err)
	defer func() { _ = p.Close(context.Background()) }()
	require.NoError(t, p.Publish(t.Context(), kafka.Record{Topic: topic, Value: []byte("1")}))

	var mine, others seen
	c, err := kafka.NewConsumer(cfg, "group", []string{topic}, kafka.Each(func(_ context.Context, r kafka.Record) error {
		mine.add(r)
		return kafka.Poison(errors.New("bad"))
	}), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	run(t, c)
	start(t, kafkatest.Name("group"), topic, kafka.Each(func(_ context.Context, r kafka.Record) error { others.add(r); return nil }))
	eventually(t, []string{"1"}, mine.values)
	require.Equal(t, topic, mine.recs[0].Topic)
	letter := kafkatest.Read(t, prefix+topic+kafka.DLQSuffix, 1)[0]
	require.Equal(t, "group", letter.Headers[kafka.HeaderGroup])
	require.Empty(t, others.values())
}
