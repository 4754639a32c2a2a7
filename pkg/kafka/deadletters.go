package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/errs"
)

// Offsets are positions in a topic by partition.
type Offsets map[int32]int64

// DeadLetters reads dead-letter topics for operators. Nothing is consumed: groups have no part in it.
type DeadLetters struct{ cfg Config }

// NewDeadLetters reads the dead letters of a platform's topics.
func NewDeadLetters(cfg Config) *DeadLetters { return &DeadLetters{cfg} }

// List returns at most limit dead letters of a topic, about the latest first: those of a partition in
// the reverse order of their offsets. before limits them to offsets below, for the partitions that it
// names; next continues behind the page, nil at the end. A topic without dead letters may have no
// dead-letter topic.
func (d *DeadLetters) List(ctx context.Context, topic string, before Offsets, limit int) (page []Record, next Offsets, err error) {
	client, err := d.cfg.newClient("dead-letters")
	if err != nil {
		return nil, nil, err
	}
	starts, ends, err := d.bounds(ctx, client, topic)
	client.Close()
	if err != nil {
		return nil, nil, err
	}
	from, to := Offsets{}, Offsets{}
	for p, end := range ends {
		to[p] = end
		if b, given := before[p]; given {
			to[p] = max(min(b, end), starts[p])
		}
		from[p] = max(starts[p], to[p]-int64(limit))
	}
	read, err := d.read(ctx, topic, from, to)
	if err != nil {
		return nil, nil, err
	}
	page, next = merge(read, to, limit)
	for p := range next {
		if next[p] > starts[p] {
			return page, next, nil
		}
	}
	return page, nil, nil
}

// maxGap bounds the records between two wanted ones that are read to no purpose.
const maxGap = 200

// Get returns the dead letters of a topic at these offsets, those that exist.
func (d *DeadLetters) Get(ctx context.Context, topic string, wanted map[int32][]int64) ([]Record, error) {
	client, err := d.cfg.newClient("dead-letters")
	if err != nil {
		return nil, err
	}
	starts, ends, err := d.bounds(ctx, client, topic)
	client.Close()
	if err != nil {
		return nil, err
	}
	left := map[int32][]int64{}
	for p, offsets := range wanted {
		offsets = slices.DeleteFunc(slices.Clone(offsets), func(at int64) bool { return at < starts[p] || at >= ends[p] })
		slices.Sort(offsets)
		left[p] = slices.Compact(offsets)
	}
	var out []Record
	for { // each round reads the next range of every partition
		from, to := Offsets{}, Offsets{}
		for p, offsets := range left {
			if len(offsets) == 0 {
				continue
			}
			n := 1
			for n < len(offsets) && offsets[n]-offsets[n-1] <= maxGap {
				n++
			}
			from[p], to[p], left[p] = offsets[0], offsets[n-1]+1, offsets[n:]
		}
		if len(from) == 0 {
			return out, nil
		}
		read, err := d.read(ctx, topic, from, to)
		if err != nil {
			return nil, err
		}
		for p, records := range read {
			for _, r := range records {
				if slices.Contains(wanted[p], r.Offset) {
					out = append(out, r)
				}
			}
		}
	}
}

// Redriven is a dead letter as it is published again: unchanged, to its original topic, where only the
// group that failed takes it.
func Redriven(topic string, letter Record) Record {
	headers := maps.Clone(letter.Headers)
	return Record{Topic: topic, Key: letter.Key, Value: letter.Value, Headers: headers}
}

// bounds are the first offset, and the one after the last, of each partition.
func (d *DeadLetters) bounds(ctx context.Context, client *kgo.Client, topic string) (starts, ends Offsets, err error) {
	admin, name := kadm.NewClient(client), d.cfg.topic(topic)+DLQSuffix
	list := func(ask func(context.Context, ...string) (kadm.ListedOffsets, error)) Offsets {
		listed, failed := ask(ctx, name)
		if failed == nil {
			failed = listed.Error()
		}
		if failed != nil && !errors.Is(failed, kerr.UnknownTopicOrPartition) {
			err = errs.ErrUnavailable.Wrap(fmt.Errorf("offsets of %s: %w", name, failed))
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

// read returns the records between two offsets of each partition, the second excluded.
func (d *DeadLetters) read(ctx context.Context, topic string, from, to Offsets) (map[int32][]Record, error) {
	name := d.cfg.topic(topic) + DLQSuffix
	begin, left := map[int32]kgo.Offset{}, 0
	for p, at := range from {
		if at < to[p] {
			begin[p] = kgo.NewOffset().At(at)
			left++
		}
	}
	out := map[int32][]Record{}
	if left == 0 {
		return out, nil
	}
	client, err := d.cfg.newClient("dead-letters", kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: begin}), kgo.FetchMaxWait(fetchMaxWait))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, errs.ErrUnavailable.Wrap(fmt.Errorf("read %s: %w", name, err))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset >= to[r.Partition] {
				return
			}
			out[r.Partition] = append(out[r.Partition], FromKgo(r))
			if r.Offset == to[r.Partition]-1 {
				left--
			}
		})
	}
	return out, nil
}

// merge takes the latest records of several partitions, each from its end.
func merge(read map[int32][]Record, to Offsets, limit int) (page []Record, next Offsets) {
	next = maps.Clone(to)
	for len(page) < limit {
		latest := int32(-1)
		for p, records := range read {
			if len(records) == 0 {
				continue
			}
			last := records[len(records)-1]
			if latest < 0 {
				latest = p
				continue
			}
			if best := read[latest][len(read[latest])-1]; last.Time.After(best.Time) || last.Time.Equal(best.Time) && p < latest {
				latest = p
			}
		}
		if latest < 0 {
			return page, next
		}
		records := read[latest]
		last := records[len(records)-1]
		page, next[latest], read[latest] = append(page, last), last.Offset, records[:len(records)-1]
	}
	return page, next
}
