package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/ids"
	"urr.guru/pkg/kafka"
	pkgredis "urr.guru/pkg/redis"
)

// Key is the stream in the Redis of the gateways. Its entries have one field, the value of the event
// in Kafka.
const Key = "{audit}:waiting"

const (
	field = "event"
	// maxWaiting bounds the stream: about 20 MB. Outcomes leave half of it to acts. A few more may get
	// in, since several gateways add at once.
	maxWaiting = 20_000
	// storeTimeout bounds how long an act waits for Redis.
	storeTimeout = 500 * time.Millisecond
	// leaseLife is how long a gateway that has died keeps the others from moving records.
	leaseLife = 5 * time.Second
	// restLife is how long a gateway that cannot reach Kafka leaves the lease to the others. It is longer
	// than the lease lives and than they need to notice that it is free.
	restLife = leaseLife + 2*moveEvery
	// moveMax bounds the records of one call.
	moveMax = 100
	// moveEvery is the interval at which records are moved, and the stream is measured.
	moveEvery = time.Second
)

// errFull: the records wait in memory then.
var errFull = errors.New("the stream of waiting records is full")

// release deletes the lease if it is that of the caller.
var release = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// stream is the records that wait in Redis, shared by all gateways.
type stream struct {
	rdb        redis.UniversalClient
	key, lease string
	self       string // names this process in the lease

	timeout   time.Duration // storeTimeout, but in tests
	leaseLife time.Duration // leaseLife, but in tests

	// The rest is used by move only.

	// rest ends when this process may acquire the lease again; nil: it may.
	rest <-chan time.Time
	// failure is why it rests.
	failure error
	// beyond is the last entry that was tried before the rest, "" for none.
	beyond string
}

// entry is a record that waits in Redis.
type entry struct {
	id    string
	value []byte
}

func newStream(rdb redis.UniversalClient, key string) *stream {
	return &stream{rdb: rdb, key: key, lease: key + ":lease", self: ids.NewV7().String(), timeout: storeTimeout, leaseLife: leaseLife}
}

// add appends a record.
func (s *stream) add(ctx context.Context, h held) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	n, err := s.rdb.XLen(ctx, s.key).Result()
	if err != nil {
		return storeError(err)
	}
	if n >= maxWaiting || n >= maxWaiting/2 && !h.act {
		return errFull
	}
	return storeError(s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: s.key, Values: []any{field, h.Value}}).Err())
}

// length returns how many records wait.
func (s *stream) length(ctx context.Context) (int64, error) {
	n, err := s.rdb.XLen(ctx, s.key).Result()
	return n, storeError(err)
}

// acquire reports whether this process may move records: one at a time does, or each record would
// be published by every gateway. That would be harmless, so the lease need not be exact.
func (s *stream) acquire(ctx context.Context) (bool, error) {
	mine, err := s.rdb.SetNX(ctx, s.lease, s.self, s.leaseLife).Result()
	if err != nil || mine {
		return mine, storeError(err)
	}
	holder, err := s.rdb.Get(ctx, s.lease).Result()
	if errors.Is(err, redis.Nil) || err == nil && holder != s.self {
		return false, nil
	}
	if err != nil {
		return false, storeError(err)
	}
	return true, storeError(s.rdb.Expire(ctx, s.lease, s.leaseLife).Err())
}

// yield gives the lease up, for restLife: another gateway may reach Kafka.
func (s *stream) yield(ctx context.Context, why error) error {
	s.rest, s.failure = time.After(restLife), why
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	return errors.Join(why, storeError(release.Run(ctx, s.rdb, []string{s.lease}, s.self).Err()))
}

// resting returns why this process must not acquire the lease now, nil if it may.
func (s *stream) resting() error {
	select {
	case <-s.rest:
		s.rest, s.failure = nil, nil
	default: // also without a rest
	}
	return s.failure
}

// read returns the oldest records after an entry, "" for the first ones. An entry without a value is
// one that somebody else has made.
func (s *stream) read(ctx context.Context, after string) ([]entry, error) {
	start := "-"
	if after != "" {
		start = "(" + after
	}
	list, err := s.rdb.XRangeN(ctx, s.key, start, "+", moveMax).Result()
	if err != nil {
		return nil, storeError(err)
	}
	entries := make([]entry, len(list))
	for i, m := range list {
		value, _ := m.Values[field].(string)
		entries[i] = entry{id: m.ID, value: []byte(value)}
	}
	return entries, nil
}

// remove deletes records that have arrived in Kafka.
func (s *stream) remove(ctx context.Context, entries []string) error {
	if len(entries) == 0 {
		return nil
	}
	return storeError(s.rdb.XDel(ctx, s.key, entries...).Err())
}

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("records of acts: %w", pkgredis.Err(err))
}

// move publishes the records that wait in Redis, oldest first, and removes those that have arrived. A
// process that dies in between has them published again by the next one. Records that Kafka does not
// take stay for the next call, and those behind them are published. If it takes none, the lease is
// left to another gateway.
func (l *Log) move(ctx context.Context) error {
	if l.waiting == nil {
		return nil
	}
	n, err := l.waiting.length(ctx)
	if err != nil {
		return err
	}
	waitingGauge.Set(float64(n))
	if err := l.waiting.resting(); err != nil {
		return err
	}
	return l.pass(ctx, n)
}

// pass is move for a stream of n records.
func (l *Log) pass(ctx context.Context, n int64) error {
	s := l.waiting
	var (
		after   string
		failure error // the first of the pass
		reached bool  // Kafka has acked a record
		second  bool  // the first page failed altogether, and this is another
	)
	for n > 0 && ctx.Err() == nil {
		mine, err := s.acquire(ctx)
		if err != nil || !mine {
			return errors.Join(failure, err)
		}
		entries, err := s.read(ctx, after)
		if err != nil {
			return errors.Join(failure, err)
		}
		if len(entries) == 0 {
			s.beyond = ""
			break
		}
		after = entries[len(entries)-1].id
		gone, acked, failed := l.transfer(ctx, entries)
		if err := s.remove(ctx, gone); err != nil {
			return errors.Join(failure, failed, err)
		}
		n -= int64(len(gone))
		waitingGauge.Set(float64(max(0, n)))
		reached = reached || acked
		if failed == nil {
			continue
		}
		if failure == nil {
			failure = failed
		}
		switch {
		case reached:
		case second:
			s.beyond = after
			return s.yield(ctx, failure)
		default:
			// Perhaps it is one partition that fails. Each pass tries another page besides the oldest.
			second = true
			if s.beyond != "" {
				after = s.beyond
			}
		}
	}
	if failure != nil && !reached {
		return s.yield(ctx, failure)
	}
	return failure
}

// transfer publishes records. It returns the ids of those that need not wait any longer, whether Kafka
// has acked any, and why it has not acked the others. What is no event is dropped.
func (l *Log) transfer(ctx context.Context, entries []entry) (gone []string, acked bool, failure error) {
	var sent []string
	var recs []kafka.Record
	for _, e := range entries {
		rec, err := readRecord(e.value)
		if err != nil {
			l.log.ErrorContext(ctx, "waiting record is no act, dropped", "value", string(e.value), "error", err)
			gone = append(gone, e.id)
			continue
		}
		sent, recs = append(sent, e.id), append(recs, rec)
	}
	for i, err := range l.publish(ctx, recs) {
		if err == nil {
			gone, acked = append(gone, sent[i]), true
		} else if failure == nil {
			failure = err
		}
	}
	return gone, acked, failure
}
