// Package deadletter lists and redrives the dead letters of a service's consumer group: over RPC
// for the gateway's operators, and as a command of the service.
package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
)

// Marks are the service's memory of which letters were redriven, by keys of any form. The offsets
// of a consumer group would not do: brokers forget them after seven days without a member, and
// operators redrive letters by id too.
type Marks interface {
	// Redriven returns when letters were redriven; those that were not are left out.
	Redriven(ctx context.Context, topic string, letters []string) (map[string]time.Time, error)
	// NoteRedriven marks letters; the first time of each stays.
	NoteRedriven(ctx context.Context, topic string, letters []string) error
}

// Producer is the part of kafka.Producer in use.
type Producer interface {
	PublishEach(ctx context.Context, recs []kafka.Record) []error
}

// Source says whose dead letters they are: of a consumer group, from the topics that it consumes.
type Source struct {
	Kafka  kafka.Config
	Group  string
	Topics []string
}

// Letters are the dead letters of a consumer group. They stay in their dead-letter topics for good.
type Letters struct {
	source   Source
	reader   *kafka.DeadLetters
	producer Producer
	marks    Marks
}

// New makes Letters.
func New(source Source, producer Producer, marks Marks) *Letters {
	return &Letters{source: source, reader: kafka.NewDeadLetters(source.Kafka), producer: producer, marks: marks}
}

// Letter is a dead letter.
type Letter struct {
	kafka.Record

	RedrivenAt time.Time // zero: not redriven
}

// ID is unique in the topic: <partition>-<offset>.
func (l *Letter) ID() string { return fmt.Sprintf("%d-%d", l.Partition, l.Offset) }

// mark is the letter's key in Marks. With the time, a letter in a topic that was made anew is not
// taken for the one that had its offset before.
func (l *Letter) mark() string { return fmt.Sprintf("%s-%d", l.ID(), l.Time.UnixMilli()) }

// Result has the ids of the letters that were published again, and of those that the broker will
// never accept.
type Result struct{ Redriven, Refused []string }

// maxLooks bounds the pages that one call reads to find letters of the group.
const maxLooks = 10

// List returns at most limit letters, about the latest first, from below the offsets of before on;
// next is the before of the following page, nil at the end.
func (l *Letters) List(ctx context.Context, topic string, before kafka.Offsets, limit int) (page []Letter, next kafka.Offsets, err error) {
	for range maxLooks {
		records, next, err := l.reader.List(ctx, topic, before, limit-len(page))
		if err != nil {
			return nil, nil, err
		}
		own, err := l.own(ctx, topic, records)
		if err != nil {
			return nil, nil, err
		}
		page, before = append(page, own...), next
		if next == nil || len(page) == limit {
			break
		}
	}
	return page, before, nil
}

// pageSize is the most letters that are read and published at once.
const pageSize = 1000

// Next reads a page of the oldest letters of a span, and returns at most limit of the group among
// them that were not redriven, maybe none, with the span behind them.
func (l *Letters) Next(ctx context.Context, topic string, span kafka.Span, limit int) (open []Letter, rest kafka.Span, err error) {
	records, rest, err := l.reader.Oldest(ctx, topic, span, pageSize)
	if err != nil {
		return nil, kafka.Span{}, err
	}
	own, err := l.own(ctx, topic, records)
	open = notRedriven(own)
	if len(open) <= limit {
		return open, rest, err
	}
	for _, left := range slices.Backward(open[limit:]) {
		rest.From[left.Partition] = left.Offset
	}
	return open[:limit], rest, err
}

// Find returns the letters of the group with these ids that were not redriven, the oldest of each
// partition first.
func (l *Letters) Find(ctx context.Context, topic string, ids []string) ([]Letter, error) {
	wanted := map[int32][]int64{}
	for _, id := range ids {
		if p, offset, ok := parseID(id); ok {
			wanted[p] = append(wanted[p], offset)
		}
	}
	records, err := l.reader.Get(ctx, topic, wanted)
	if err != nil {
		return nil, err
	}
	found, err := l.own(ctx, topic, records)
	slices.SortFunc(found, func(a, b Letter) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return notRedriven(found), err
}

// own returns the records that are letters of the group, with the times at which they were
// redriven.
func (l *Letters) own(ctx context.Context, topic string, records []kafka.Record) ([]Letter, error) {
	var letters []Letter
	var marks []string
	for _, r := range records {
		if r.Headers[kafka.HeaderGroup] == l.source.Group {
			letters = append(letters, Letter{Record: r})
			marks = append(marks, letters[len(letters)-1].mark())
		}
	}
	if len(letters) == 0 {
		return nil, nil
	}
	at, err := l.marks.Redriven(ctx, topic, marks)
	for i := range letters {
		letters[i].RedrivenAt = at[marks[i]]
	}
	return letters, err
}

func notRedriven(letters []Letter) []Letter {
	return slices.DeleteFunc(letters, func(l Letter) bool { return !l.RedrivenAt.IsZero() })
}

// noteTimeout bounds the writing of marks, which the end of a call does not prevent.
const noteTimeout = 5 * time.Second

// Redrive publishes letters again, in this order, and marks those that the brokers have stored. If
// the process dies in between they are published twice, and so are those that two redrives take at
// once: consumers drop the copy. With an error it returns what was done before.
func (l *Letters) Redrive(ctx context.Context, topic string, letters []Letter) (done Result, err error) {
	if len(letters) == 0 {
		return done, nil
	}
	records := make([]kafka.Record, len(letters))
	for i := range letters {
		records[i] = kafka.Redriven(topic, letters[i].Record)
	}
	var marks []string
	for i, failed := range l.producer.PublishEach(ctx, records) {
		if kafka.Refused(failed) && err == nil { // it, or another one of its batch
			failed = l.producer.PublishEach(ctx, records[i:i+1])[0]
		}
		switch {
		case failed == nil:
			done.Redriven = append(done.Redriven, letters[i].ID())
			marks = append(marks, letters[i].mark())
		case kafka.Refused(failed):
			done.Refused = append(done.Refused, letters[i].ID())
		case err == nil:
			err = errs.ErrUnavailable.Wrap(fmt.Errorf("redrive %s of %s: %w", letters[i].ID(), topic, failed))
		}
	}
	if len(marks) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
		defer cancel()
		err = errors.Join(err, l.marks.NoteRedriven(ctx, topic, marks))
	}
	return done, err
}

func parseID(id string) (partition int32, offset int64, ok bool) {
	p, o, found := strings.Cut(id, "-")
	n, err := strconv.ParseInt(p, 10, 32)
	offset, bad := strconv.ParseInt(o, 10, 64)
	return int32(n), offset, found && err == nil && bad == nil && n >= 0 && offset >= 0 && id == fmt.Sprintf("%d-%d", n, offset)
}
