package kafka_test

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
)

// The pages of List have each dead letter once, and those of a partition from its end.
func TestDeadLettersInPages(t *testing.T) {
	t.Parallel()
	topic, cfg := kafkatest.Topic(t), kafkatest.Config(t)
	producer := kafkatest.ProducerOf(t, cfg)
	letters := kafka.NewDeadLetters(cfg)
	page, next, err := letters.List(t.Context(), topic, nil, 10)
	require.NoError(t, err)
	require.Empty(t, page)
	require.Nil(t, next)

	const all = 100
	var records []kafka.Record
	for i := range all {
		records = append(records, kafka.Record{Topic: topic + kafka.DLQSuffix, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	require.NoError(t, producer.Publish(t.Context(), records...))
	seen := map[string]bool{}
	for limit := 1; ; limit = 30 {
		var before kafka.Offsets
		if limit > 1 {
			before = next
		}
		page, next, err = letters.List(t.Context(), topic, before, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		last := map[int32]int64{}
		for _, r := range page {
			require.False(t, seen[string(r.Value)], "twice: %s", r.Value)
			seen[string(r.Value)] = true
			if at, more := last[r.Partition]; more {
				require.Equal(t, at-1, r.Offset)
			}
			last[r.Partition] = r.Offset
		}
		if next == nil {
			break
		}
	}
	require.Len(t, seen, all)
	ends := map[int32]int64{}
	page, _, err = letters.List(t.Context(), topic, nil, all)
	require.NoError(t, err)
	wanted := map[int32][]int64{0: {-1, all, 0, 0}, 9: {0}}
	for _, r := range page {
		ends[r.Partition] = max(ends[r.Partition], r.Offset)
	}
	wanted[1] = []int64{ends[1], 0}
	got, err := letters.Get(t.Context(), topic, wanted)
	require.NoError(t, err)
	var places []string
	for _, r := range got {
		places = append(places, fmt.Sprintf("%d-%d", r.Partition, r.Offset))
	}
	require.ElementsMatch(t, []string{"0-0", "1-0", fmt.Sprintf("1-%d", ends[1])}, places)
}

// Wanted letters that are far apart are read without the letters in between.
func TestDeadLettersFarApart(t *testing.T) {
	t.Parallel()
	topic, cfg := kafkatest.TopicOf(t, 1), kafkatest.Config(t)
	producer := kafkatest.Producer(t)
	var records []kafka.Record
	for i := range 500 {
		records = append(records, kafka.Record{Topic: topic + kafka.DLQSuffix, Value: fmt.Append(nil, i)})
	}
	require.NoError(t, producer.Publish(t.Context(), records...))
	got, err := kafka.NewDeadLetters(cfg).Get(t.Context(), topic, map[int32][]int64{0: {499, 3, 7}})
	require.NoError(t, err)
	var values []string
	for _, r := range got {
		values = append(values, string(r.Value))
	}
	require.Equal(t, []string{"3", "7", "499"}, values)
}

// Oldest returns each letter of a span once, in the order of its partition, and no later letters.
// Pages of large letters are smaller.
func TestOldestDeadLetters(t *testing.T) {
	t.Parallel()
	topic, cfg := kafkatest.Topic(t), kafkatest.Config(t)
	producer := kafkatest.Producer(t)
	letters := kafka.NewDeadLetters(cfg)
	publish := func(n int, value []byte) {
		var records []kafka.Record
		for i := range n {
			records = append(records, kafka.Record{Topic: topic + kafka.DLQSuffix, Key: fmt.Append(nil, i), Value: value})
		}
		require.NoError(t, producer.Publish(t.Context(), records...))
	}
	span, err := letters.Span(t.Context(), topic)
	require.NoError(t, err)
	require.True(t, span.Empty())
	publish(90, nil)
	large := make([]byte, 900<<10)
	_, _ = rand.Read(large) // so that it cannot be compressed
	publish(30, large)
	span, err = letters.Span(t.Context(), topic)
	require.NoError(t, err)
	publish(10, nil)

	seen, next, pages := 0, map[int32]int64{}, 0
	for ; !span.Empty(); pages++ {
		var page []kafka.Record
		page, span, err = letters.Oldest(t.Context(), topic, span, 80)
		require.NoError(t, err)
		require.NotEmpty(t, page)
		require.LessOrEqual(t, len(page), 80)
		size := 0
		for _, r := range page {
			require.Equal(t, next[r.Partition], r.Offset)
			next[r.Partition]++
			size += len(r.Value)
		}
		require.Less(t, size, 24<<20, "of 27 MB")
		seen += len(page)
	}
	require.Equal(t, 120, seen)
	require.Greater(t, pages, 2)
}
