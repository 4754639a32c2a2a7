package kafka

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/services/worker/internal/deadletter"
)

var _ deadletter.TopicLetters = (*Letters)(nil)

// Letters reads and republishes dead letters. The id of one is <partition>-<offset>.
type Letters struct {
	reader   *kafka.DeadLetters
	producer Producer
}

// NewLetters makes Letters.
func NewLetters(reader *kafka.DeadLetters, p Producer) *Letters { return &Letters{reader, p} }

// List returns a page of dead letters; a cursor is a list of <partition>-<offset>.
func (l *Letters) List(ctx context.Context, topic, cursor string, limit int) (page []deadletter.Letter, next string, err error) {
	before := kafka.Offsets{}
	if cursor != "" {
		for part := range strings.SplitSeq(cursor, ",") {
			p, offset, ok := parseID(part)
			if !ok {
				return nil, "", errs.ErrInvalidCursor
			}
			before[p] = offset
		}
	}
	records, after, err := l.reader.List(ctx, topic, before, limit)
	if err != nil {
		return nil, "", err
	}
	for _, r := range records {
		page = append(page, letterOf(r))
	}
	var parts []string
	for p, offset := range after {
		parts = append(parts, formatID(p, offset))
	}
	slices.Sort(parts)
	return page, strings.Join(parts, ","), nil
}

func (l *Letters) Get(ctx context.Context, topic string, ids []string) ([]deadletter.Letter, error) {
	records, err := l.records(ctx, topic, ids)
	var out []deadletter.Letter
	for _, r := range records {
		out = append(out, letterOf(r))
	}
	return out, err
}

func (l *Letters) records(ctx context.Context, topic string, ids []string) ([]kafka.Record, error) {
	wanted := map[int32][]int64{}
	for _, id := range ids {
		if p, offset, ok := parseID(id); ok && formatID(p, offset) == id {
			wanted[p] = append(wanted[p], offset)
		}
	}
	return l.reader.Get(ctx, topic, wanted)
}

func (l *Letters) Republish(ctx context.Context, topic string, ids []string) error {
	records, err := l.records(ctx, topic, ids)
	if err != nil {
		return err
	}
	if len(records) != len(ids) {
		return fmt.Errorf("%d of %d dead letters of %s are gone", len(ids)-len(records), len(ids), topic)
	}
	slices.SortStableFunc(records, func(a, b kafka.Record) int {
		return cmp.Compare(slices.Index(ids, formatID(a.Partition, a.Offset)), slices.Index(ids, formatID(b.Partition, b.Offset)))
	})
	out := make([]kafka.Record, len(records))
	for i, r := range records {
		out[i] = kafka.Redriven(topic, r)
	}
	return l.producer.Publish(ctx, out...)
}

func letterOf(r kafka.Record) deadletter.Letter {
	return deadletter.Letter{
		ID: formatID(r.Partition, r.Offset), Group: r.Headers[kafka.HeaderGroup], Key: validUTF8(string(r.Key)), Type: validUTF8(r.Type),
		Body: validUTF8(string(r.Value)), Error: validUTF8(r.Headers[kafka.HeaderError]), Origin: r.Headers[kafka.HeaderOrigin], At: r.Time.UnixMilli(),
	}
}

// validUTF8 replaces bytes that are not UTF-8, which no answer may contain.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func formatID(partition int32, offset int64) string { return fmt.Sprintf("%d-%d", partition, offset) }

func parseID(id string) (partition int32, offset int64, ok bool) {
	p, o, found := strings.Cut(id, "-")
	n, err := strconv.ParseInt(p, 10, 32)
	offset, bad := strconv.ParseInt(o, 10, 64)
	return int32(n), offset, found && err == nil && bad == nil && n >= 0 && offset >= 0
}
