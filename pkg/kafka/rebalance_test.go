package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/testkit"
)

// traffic publishes numbered records and finishes each one only after a later one is published, so
// that some records are always in a handler when partitions move.
type traffic struct {
	t        *testing.T
	topic    string
	producer *kafka.Producer
	sent     int
	turns    chan struct{} // a value for each record that may be finished

	mu     sync.Mutex
	busy   map[int32]bool
	shared []int32 // partitions that two handlers had at once
	times  map[string]int
}

// held is the number of records in handlers or waiting for one.
const held = 3

func newTraffic(t *testing.T) *traffic {
	t.Helper()
	return &traffic{
		t: t, topic: kafkatest.Topic(t), producer: kafkatest.Producer(t), turns: make(chan struct{}, 1<<16),
		busy: make(map[int32]bool), times: make(map[string]int),
	}
}

func (f *traffic) send() {
	f.t.Helper()
	rec := kafka.Record{Topic: f.topic, Key: fmt.Append(nil, f.sent%7), Value: fmt.Append(nil, f.sent)}
	require.NoError(f.t, f.producer.Publish(f.t.Context(), rec))
	if f.sent++; f.sent > held {
		f.turns <- struct{}{}
	}
}

// sendUntil sends records until end is closed.
func (f *traffic) sendUntil(end <-chan struct{}, what string) {
	f.t.Helper()
	testkit.Until(f.t, func() bool {
		f.send()
		select {
		case <-end:
			return true
		default:
			return false
		}
	}, what)
}

func (f *traffic) handle(ctx context.Context, r kafka.Record) error {
	f.mu.Lock()
	if f.busy[r.Partition] {
		f.shared = append(f.shared, r.Partition)
	}
	f.busy[r.Partition] = true
	f.mu.Unlock()
	var err error
	select {
	case <-f.turns:
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[r.Partition] = false
	if err == nil {
		f.times[string(r.Value)]++
	}
	return err
}

func (f *traffic) handled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.times)
}

// When a second member joins, partitions move: nothing is lost, and no partition is processed by
// two members at once.
func TestRebalanceLosesNothing(t *testing.T) {
	t.Parallel()
	f, group := newTraffic(t), kafkatest.Name("group")
	first := launch(t, consumer(t, group, f.topic, kafka.Each(f.handle)))
	for range 100 {
		f.send()
	}
	joined := make(chan struct{})
	join := sync.OnceFunc(func() { close(joined) })
	start(t, group, f.topic, kafka.Each(func(ctx context.Context, r kafka.Record) error { join(); return f.handle(ctx, r) }))
	// A member that leaves during a rebalance may miss its last commit.
	f.sendUntil(joined, "the second member has a partition")
	first.cancel()
	f.sendUntil(first.done, "the first member has left")
	for range 100 {
		f.send()
	}
	close(f.turns)
	testkit.Until(t, func() bool { return f.handled() == f.sent }, "all records are processed")
	require.Empty(t, f.shared, "partitions that two members processed at once")
	for v, k := range f.times {
		require.Equal(t, 1, k, "record %s: both left and joined in order, so nothing comes twice", v)
	}
}

// A handler that does not return must not keep the process alive: its context is cancelled after
// the grace period, and the record is delivered again.
func TestStopCancelsHangingHandler(t *testing.T) {
	t.Parallel()
	topic, group := kafkatest.Topic(t), kafkatest.Name("group")
	publish(t, topic, "k", "1")
	entered := make(chan struct{})
	c := consumer(t, group, topic, kafka.Each(func(ctx context.Context, _ kafka.Record) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}))
	c.StopGrace(time.Millisecond)
	stop := run(t, c)
	testkit.Receive(t, entered)
	stop()
	var done seen
	start(t, group, topic, kafka.Each(func(_ context.Context, r kafka.Record) error { done.add(r); return nil }))
	requireEventually(t, []string{"1"}, done.values)
}

// A partition that is revoked with a full backlog and assigned again must be fetched again.
func TestReassignedPartitionIsFetched(t *testing.T) {
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
	c := consumer(t, group, topic, kafka.Each(func(ctx context.Context, r kafka.Record) error {
		select {
		case <-release:
			done.add(r)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}))
	c.StopGrace(time.Millisecond)
	run(t, c)
	testkit.Until(t, func() bool { return c.Paused() == 2 }, "both backlogs are full")

	joined := make(chan struct{}, 1)
	second := consumer(t, group, topic, kafka.Each(func(ctx context.Context, _ kafka.Record) error {
		select {
		case joined <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	second.StopGrace(time.Millisecond)
	leave := run(t, second)
	testkit.Receive(t, joined, "the second member has one of the two")
	leave()
	close(release)
	different := func() int {
		values := done.values()
		slices.Sort(values)
		return len(slices.Compact(values))
	}
	testkit.Until(t, func() bool { return different() == 2*each }, "all records are processed")
}
