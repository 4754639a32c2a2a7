package kafka

import (
	"context"
	"maps"
	"math"
	"slices"
)

// Offsets has one offset of a topic for each partition.
type Offsets map[int32]int64

// DeadLetters reads dead-letter topics for operators. It belongs to no consumer group.
type DeadLetters struct{ cfg Config }

// NewDeadLetters makes DeadLetters for the brokers and the topic prefix of cfg.
func NewDeadLetters(cfg Config) *DeadLetters { return &DeadLetters{cfg} }

// Span is a range of dead letters: in each partition the offsets from From up to, not including,
// To.
type Span struct{ From, To Offsets }

// Empty reports whether no offset is left in the span.
func (s Span) Empty() bool {
	for p, to := range s.To {
		if s.From[p] < to {
			return false
		}
	}
	return true
}

// Span returns the span of all dead letters that a topic has at the moment.
func (d *DeadLetters) Span(ctx context.Context, topic string) (Span, error) {
	starts, ends, err := d.offsetBounds(ctx, topic)
	return Span{From: starts, To: ends}, err
}

// Oldest returns at most limit of the oldest dead letters in a span, and the span that remains. The
// order is exact within a partition, by offset, and approximate between partitions. A page may have
// fewer than limit letters, but is empty only for an empty span.
func (d *DeadLetters) Oldest(ctx context.Context, topic string, span Span, limit int) (page []Record, remaining Span, err error) {
	starts, ends, err := d.offsetBounds(ctx, topic)
	if err != nil {
		return nil, Span{}, err
	}
	remaining = Span{From: Offsets{}, To: Offsets{}}
	to := Offsets{}
	for p, end := range ends {
		from, last := max(span.From[p], starts[p]), min(span.To[p], end)
		if from < last {
			remaining.From[p], remaining.To[p], to[p] = from, last, min(last, from+int64(limit))
		}
	}
	byPartition, err := d.readRange(ctx, topic, remaining.From, to, maxPageBytes)
	if err != nil {
		return nil, Span{}, err
	}
	return takeOldest(byPartition, remaining.From, limit), remaining, nil
}

// List returns at most limit dead letters of a topic, the latest first. The order is exact within a
// partition, by offset, and approximate between partitions. From a partition in before, the page
// has only lower offsets. next is the value of before for the following page, nil at the end. A
// topic whose dead-letter topic does not exist has no dead letters.
func (d *DeadLetters) List(ctx context.Context, topic string, before Offsets, limit int) (page []Record, next Offsets, err error) {
	starts, ends, err := d.offsetBounds(ctx, topic)
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
	byPartition, err := d.readRange(ctx, topic, from, to, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	page, next = takeLatest(byPartition, to, limit)
	for p := range next {
		if next[p] > starts[p] {
			return page, next, nil
		}
	}
	return page, nil, nil
}

// maxGap is the largest number of unwanted records between two wanted ones for which both are still
// read in one range.
const maxGap = 200

// Get returns the dead letters of a topic at the wanted offsets. Missing letters are left out.
func (d *DeadLetters) Get(ctx context.Context, topic string, wanted map[int32][]int64) ([]Record, error) {
	starts, ends, err := d.offsetBounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	remaining := map[int32][]int64{}
	for p, offsets := range wanted {
		offsets = slices.DeleteFunc(slices.Clone(offsets), func(at int64) bool { return at < starts[p] || at >= ends[p] })
		slices.Sort(offsets)
		remaining[p] = slices.Compact(offsets)
	}
	var out []Record
	for { // reads the next range of every partition
		from, to := Offsets{}, Offsets{}
		for p, offsets := range remaining {
			if len(offsets) == 0 {
				continue
			}
			n := 1
			for n < len(offsets) && offsets[n]-offsets[n-1] <= maxGap {
				n++
			}
			from[p], to[p], remaining[p] = offsets[0], offsets[n-1]+1, offsets[n:]
		}
		if len(from) == 0 {
			return out, nil
		}
		byPartition, err := d.readRange(ctx, topic, from, to, math.MaxInt)
		if err != nil {
			return nil, err
		}
		for p, records := range byPartition {
			for _, r := range records {
				if slices.Contains(wanted[p], r.Offset) {
					out = append(out, r)
				}
			}
		}
	}
}

// RedriveTopic returns the topic of a group's redriven letters. Only the group's service writes it, so
// that no service needs to write a topic of another one.
func RedriveTopic(group string) string { return group + ".redriven" }

// RedrivenRecord returns the record that publishes a dead letter again, unchanged, to the group that
// failed to process it.
func RedrivenRecord(group string, letter Record) Record {
	return Record{Topic: RedriveTopic(group), Key: letter.Key, Value: letter.Value, Headers: maps.Clone(letter.Headers)}
}

// dlqOf returns the full name of a topic's dead-letter topic.
func (d *DeadLetters) dlqOf(topic string) string { return d.cfg.prefixedTopic(topic) + DLQSuffix }

func (d *DeadLetters) offsetBounds(ctx context.Context, topic string) (starts, ends Offsets, err error) {
	return d.cfg.offsetBounds(ctx, d.dlqOf(topic))
}

func (d *DeadLetters) readRange(ctx context.Context, topic string, from, to Offsets, maxBytes int) (map[int32][]Record, error) {
	return d.cfg.readRange(ctx, d.dlqOf(topic), from, to, maxBytes)
}

// takeLatest merges the records of several partitions and returns at most limit of the latest. next
// has, for each partition, the offset below which the following page begins.
func takeLatest(byPartition map[int32][]Record, to Offsets, limit int) (page []Record, next Offsets) {
	next = maps.Clone(to)
	partitions := slices.Sorted(maps.Keys(byPartition))
	for len(page) < limit {
		partitions = slices.DeleteFunc(partitions, func(p int32) bool { return len(byPartition[p]) == 0 })
		if len(partitions) == 0 {
			break
		}
		last := func(p int32) Record { return byPartition[p][len(byPartition[p])-1] }
		// MaxFunc returns the first maximum, so of two partitions with the same time the lower one.
		latest := slices.MaxFunc(partitions, func(p, q int32) int { return last(p).Time.Compare(last(q).Time) })
		record := last(latest)
		page, next[latest], byPartition[latest] = append(page, record), record.Offset, byPartition[latest][:len(byPartition[latest])-1]
	}
	return page, next
}

// takeOldest merges the records of several partitions and returns at most limit of the oldest. It
// advances the offsets in from past them.
func takeOldest(byPartition map[int32][]Record, from Offsets, limit int) (page []Record) {
	partitions := slices.Sorted(maps.Keys(byPartition))
	for len(page) < limit {
		partitions = slices.DeleteFunc(partitions, func(p int32) bool { return len(byPartition[p]) == 0 })
		if len(partitions) == 0 {
			break
		}
		oldest := slices.MinFunc(partitions, func(p, q int32) int { return byPartition[p][0].Time.Compare(byPartition[q][0].Time) })
		record := byPartition[oldest][0]
		page, from[oldest], byPartition[oldest] = append(page, record), record.Offset+1, byPartition[oldest][1:]
	}
	return page
}
