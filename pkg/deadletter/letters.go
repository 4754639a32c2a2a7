// Package deadletter lists the dead letters of a service's consumer group, and redrives them: it
// publishes them again. Operators do so through the gateway, by RPC, or with a command of the
// service.
//
// A dead letter is a record that the group could not process; it is kept in the topic <topic>.dlq.
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

// Marks records which letters were redriven. A letter is identified by a string that the caller
// chooses. The committed offsets of a consumer group cannot record this: brokers forget them after
// the group has had no member for seven days, and operators also redrive single letters by id.
type Marks interface {
	// Redriven returns when each letter was redriven; letters that never were are left out.
	Redriven(ctx context.Context, topic string, letters []string) (map[string]time.Time, error)
	// NoteRedriven records that letters were redriven now. A recorded letter keeps its time.
	NoteRedriven(ctx context.Context, topic string, letters []string) error
}

// Producer publishes records, as kafka.Producer does. The result has one error per record.
type Producer interface {
	PublishEach(ctx context.Context, recs []kafka.Record) []error
}

// Source selects the dead letters of one consumer group, from the topics that it consumes.
type Source struct {
	Kafka  kafka.Config
	Group  string
	Topics []string
}

// Letters reads and redrives the dead letters of a consumer group. A redriven letter stays in its
// dead-letter topic too, which keeps all letters.
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

// Letter is one dead letter, as stored in the dead-letter topic.
type Letter struct {
	kafka.Record

	RedrivenAt time.Time // zero: not redriven
}

// ID returns <partition>-<offset>, which is unique within the dead-letter topic.
func (l *Letter) ID() string { return fmt.Sprintf("%d-%d", l.Partition, l.Offset) }

// markKey returns the string that identifies the letter in Marks. It contains the letter's time, to
// differ from the letter with the same offset in an earlier topic that was deleted.
func (l *Letter) markKey() string { return fmt.Sprintf("%s-%d", l.ID(), l.Time.UnixMilli()) }

// Result has the ids of the letters that were published again (Redriven), and of those that the
// broker will never accept (Refused).
type Result struct{ Redriven, Refused []string }

// maxPages is the most pages that one call reads to find the group's letters among the letters of
// other groups.
const maxPages = 10

// List returns a page of at most limit letters, approximately the latest first. From a partition in
// before, the page has only letters below that offset. next is the value of before for the
// following page, nil at the end.
func (l *Letters) List(ctx context.Context, topic string, before kafka.Offsets, limit int) (page []Letter, next kafka.Offsets, err error) {
	for range maxPages {
		records, next, err := l.reader.List(ctx, topic, before, limit-len(page))
		if err != nil {
			return nil, nil, err
		}
		ownLetters, err := l.ownLetters(ctx, topic, records)
		if err != nil {
			return nil, nil, err
		}
		page, before = append(page, ownLetters...), next
		if next == nil || len(page) == limit {
			break
		}
	}
	return page, before, nil
}

// pageSize is the most letters that are read and published at once.
const pageSize = 1000

// Next reads one page of the oldest letters in a span. It returns at most limit of the group's
// letters that were not redriven, possibly none, and the part of the span that remains.
func (l *Letters) Next(ctx context.Context, topic string, span kafka.Span, limit int) (pending []Letter, remaining kafka.Span, err error) {
	records, remaining, err := l.reader.Oldest(ctx, topic, span, pageSize)
	if err != nil {
		return nil, kafka.Span{}, err
	}
	ownLetters, err := l.ownLetters(ctx, topic, records)
	pending = notRedriven(ownLetters)
	if len(pending) <= limit {
		return pending, remaining, err
	}
	for _, letter := range slices.Backward(pending[limit:]) {
		remaining.From[letter.Partition] = letter.Offset
	}
	return pending[:limit], remaining, err
}

// Find returns the letters with the given ids that belong to the group and were not redriven,
// ordered by partition and offset.
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
	found, err := l.ownLetters(ctx, topic, records)
	slices.SortFunc(found, func(a, b Letter) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return notRedriven(found), err
}

// ownLetters picks the dead letters of this group, and adds when each was redriven.
func (l *Letters) ownLetters(ctx context.Context, topic string, records []kafka.Record) ([]Letter, error) {
	var letters []Letter
	var marks []string
	for _, r := range records {
		if r.Headers[kafka.HeaderGroup] == l.source.Group {
			letters = append(letters, Letter{Record: r})
			marks = append(marks, letters[len(letters)-1].markKey())
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

// noteTimeout is the time limit of recording letters as redriven, even if the caller gives up.
const noteTimeout = 5 * time.Second

// Redrive publishes letters again, in this order, and records those that the brokers have stored.
// Letters are published twice if the process dies before it has recorded them, or if two calls
// redrive them at once. Consumers drop the second copy. done is valid even with an error.
func (l *Letters) Redrive(ctx context.Context, topic string, letters []Letter) (done Result, err error) {
	if len(letters) == 0 {
		return done, nil
	}
	records := make([]kafka.Record, len(letters))
	for i := range letters {
		records[i] = kafka.RedrivenRecord(l.source.Group, letters[i].Record)
	}
	var marks []string
	for i, publishErr := range l.producer.PublishEach(ctx, records) {
		if kafka.Refused(publishErr) && err == nil { // the broker refused this record, or another one of its batch
			publishErr = l.producer.PublishEach(ctx, records[i:i+1])[0]
		}
		switch {
		case publishErr == nil:
			done.Redriven = append(done.Redriven, letters[i].ID())
			marks = append(marks, letters[i].markKey())
		case kafka.Refused(publishErr):
			done.Refused = append(done.Refused, letters[i].ID())
		case err == nil:
			err = errs.ErrUnavailable.Wrap(fmt.Errorf("redrive %s of %s: %w", letters[i].ID(), topic, publishErr))
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
	offset, offsetErr := strconv.ParseInt(o, 10, 64)
	return int32(n), offset, found && err == nil && offsetErr == nil && n >= 0 && offset >= 0 && id == fmt.Sprintf("%d-%d", n, offset)
}
