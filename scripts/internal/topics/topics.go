// Package topics reads whole Kafka topics, from the beginning and without a consumer group, for
// tests and audits.
package topics

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Read returns all records that a topic has now, in the order of each partition.
func Read(ctx context.Context, brokers []string, topic string) ([]*kgo.Record, error) {
	// A short wait, so that a partition without new records does not delay the others for long.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(200*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	defer client.Close()
	ranges, err := readOffsetRanges(ctx, kadm.NewClient(client), topic)
	if err != nil {
		return nil, err
	}
	unread := map[int32]int64{} // the end offsets of the partitions not yet read to their ends
	starts := map[int32]kgo.Offset{}
	for _, e := range ranges {
		if e.end > e.start {
			unread[e.partition], starts[e.partition] = e.end, kgo.NewOffset().At(e.start)
		}
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts})
	var records []*kgo.Record
	for len(unread) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, wanted := unread[r.Partition]; wanted && r.Offset < end {
				records = append(records, r)
				if r.Offset == end-1 {
					delete(unread, r.Partition)
				}
			}
		})
	}
	return records, nil
}

// Depths returns the number of records in every topic whose name has this prefix and suffix. It
// leaves out empty topics.
func Depths(ctx context.Context, brokers []string, prefix, suffix string) (map[string]int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	all, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var names []string
	for _, name := range all.Names() {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	depths := map[string]int64{}
	if len(names) == 0 {
		return depths, nil
	}
	ranges, err := readOffsetRanges(ctx, admin, names...)
	if err != nil {
		return nil, err
	}
	for _, e := range ranges {
		if e.end > e.start {
			depths[e.topic] += e.end - e.start
		}
	}
	return depths, nil
}

// offsetRange has the first and the end offset of a partition.
type offsetRange struct {
	topic      string
	partition  int32
	start, end int64
}

func readOffsetRanges(ctx context.Context, admin *kadm.Client, names ...string) ([]offsetRange, error) {
	starts, err := admin.ListStartOffsets(ctx, names...)
	if err := cmp.Or(err, starts.Error()); err != nil {
		return nil, fmt.Errorf("find the beginning of %v: %w", names, err)
	}
	ends, err := admin.ListEndOffsets(ctx, names...)
	if err := cmp.Or(err, ends.Error()); err != nil {
		return nil, fmt.Errorf("find the end of %v: %w", names, err)
	}
	var out []offsetRange
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			out = append(out, offsetRange{end.Topic, end.Partition, start.Offset, end.Offset})
		}
	})
	return out, nil
}
