package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/ids"
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
	// moveMax bounds the records of one call.
	moveMax = 100
	// moveEvery is the interval at which records are moved, and the stream is measured.
	moveEvery = time.Second
)

// errFull: the records wait in memory then.
var errFull = errors.New("the stream of waiting records is full")

// stream is the records that wait in Redis, shared by all gateways.
type stream struct {
	rdb        redis.UniversalClient
	key, lease string
	self       string // names this process in the lease
}

func newStream(rdb redis.UniversalClient, key string) *stream {
	return &stream{rdb: rdb, key: key, lease: key + ":lease", self: ids.NewV7().String()}
}

// add appends a record.
func (s *stream) add(ctx context.Context, h held) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	n, err := s.rdb.XLen(ctx, s.key).Result()
	if err != nil {
		return storeError(err)
	}
	if n >= maxWaiting || n >= maxWaiting/2 && !h.act {
		return errFull
	}
	return storeError(s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: s.key, Values: []any{field, h.value}}).Err())
}

// length returns how many records wait.
func (s *stream) length(ctx context.Context) (int64, error) {
	n, err := s.rdb.XLen(ctx, s.key).Result()
	return n, storeError(err)
}

// acquire reports whether this process may move records: one at a time does, or each record would
// be published by every gateway. That would be harmless, so the lease need not be exact.
func (s *stream) acquire(ctx context.Context) (bool, error) {
	mine, err := s.rdb.SetNX(ctx, s.lease, s.self, leaseLife).Result()
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
	return true, storeError(s.rdb.Expire(ctx, s.lease, leaseLife).Err())
}

// oldest returns the ids and the values of the oldest records. An entry without a value is one that
// somebody else has made.
func (s *stream) oldest(ctx context.Context) (entries []string, values [][]byte, err error) {
	list, err := s.rdb.XRangeN(ctx, s.key, "-", "+", moveMax).Result()
	if err != nil {
		return nil, nil, storeError(err)
	}
	for _, m := range list {
		value, _ := m.Values[field].(string)
		entries, values = append(entries, m.ID), append(values, []byte(value))
	}
	return entries, values, nil
}

// remove deletes records that have arrived in Kafka.
func (s *stream) remove(ctx context.Context, entries []string) error {
	return storeError(s.rdb.XDel(ctx, s.key, entries...).Err())
}

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("records of acts: %w", pkgredis.Err(err))
}

// move publishes the records that wait in Redis, oldest first, and removes those that have arrived. A
// process that dies in between has them published again by the next one.
func (l *Log) move(ctx context.Context) error {
	if l.waiting == nil {
		return nil
	}
	n, err := l.waiting.length(ctx)
	if err != nil {
		return err
	}
	waitingGauge.Set(float64(n))
	for n > 0 && ctx.Err() == nil {
		mine, err := l.waiting.acquire(ctx)
		if err != nil || !mine {
			return err
		}
		entries, values, err := l.waiting.oldest(ctx)
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := l.publish(ctx, l.readable(ctx, values)...); err != nil {
			return err
		}
		if err := l.waiting.remove(ctx, entries); err != nil {
			return err
		}
		n -= int64(len(entries))
		waitingGauge.Set(float64(max(0, n)))
	}
	return nil
}

// readable drops what is no event: it would keep all others from being published.
func (l *Log) readable(ctx context.Context, values [][]byte) [][]byte {
	kept := values[:0]
	for _, value := range values {
		if _, err := record(value); err != nil {
			l.log.ErrorContext(ctx, "waiting record is no act, dropped", "value", string(value), "error", err)
			continue
		}
		kept = append(kept, value)
	}
	return kept
}
