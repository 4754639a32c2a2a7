package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/errs"
)

// maxPageBytes is approximately how much of a topic is read into memory at once.
const maxPageBytes = 8 << 20

// offsetBounds returns the first offset of each partition of a topic, and the offset after its
// last. name is the topic's full name. The results are empty if the topic does not exist.
func (c Config) offsetBounds(ctx context.Context, name string) (starts, ends Offsets, err error) {
	client, err := c.newClient("reader")
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	list := func(ask func(context.Context, ...string) (kadm.ListedOffsets, error)) Offsets {
		listed, listErr := ask(ctx, name)
		if listErr == nil {
			listErr = listed.Error()
		}
		if listErr != nil && !errors.Is(listErr, kerr.UnknownTopicOrPartition) {
			err = errs.ErrUnavailable.Wrap(fmt.Errorf("offsets of %s: %w", name, listErr))
		}
		out := Offsets{}
		for p, o := range listed[name] {
			if o.Err == nil {
				out[p] = o.Offset
			}
		}
		return out
	}
	return list(admin.ListStartOffsets), list(admin.ListEndOffsets), err
}

// readRange returns the records of each partition with offsets in [from, to). It stops after about
// maxBytes.
func (c Config) readRange(ctx context.Context, name string, from, to Offsets, maxBytes int) (map[int32][]Record, error) {
	unread := map[int32]kgo.Offset{}
	for p, at := range from {
		if at < to[p] {
			unread[p] = kgo.NewOffset().At(at)
		}
	}
	out := map[int32][]Record{}
	if len(unread) == 0 {
		return out, nil
	}
	client, err := c.newClient("reader", kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: maps.Clone(unread)}),
		kgo.FetchMaxWait(fetchMaxWait), kgo.FetchMaxBytes(maxPageBytes))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for size := 0; len(unread) > 0 && size < maxBytes; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, errs.ErrUnavailable.Wrap(fmt.Errorf("read %s: %w", name, err))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < to[r.Partition] {
				out[r.Partition] = append(out[r.Partition], FromKgo(r))
				size += len(r.Value)
			}
			if r.Offset >= to[r.Partition]-1 {
				delete(unread, r.Partition)
			}
		})
	}
	return out, nil
}
