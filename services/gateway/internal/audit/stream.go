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

// Key is the Redis stream in which records of acts wait for Kafka. Each entry has the value of the
// Kafka record and its signature.
const Key = "{audit}:waiting"

const (
	field          = "event"
	signatureField = "signature"
	// maxWaiting is the most entries of the stream, about 20 MB. Outcomes may fill only half of it, so
	// that acts find room. If several gateways add entries at once, there can be a few more.
	maxWaiting = 20_000
	// storeTimeout is the longest time that an act waits for Redis.
	storeTimeout = 500 * time.Millisecond
	// leaseLife is how long other gateways cannot move records after the lease's owner has died.
	leaseLife = 5 * time.Second
	// pauseLife is how long a gateway that could not reach Kafka does not acquire the lease. It is
	// longer than leaseLife plus the time in which another gateway notices that the lease is free.
	pauseLife = leaseLife + 2*moveEvery
	// moveMax is the maximum number of records that one call moves.
	moveMax = 100
	// moveEvery is the interval at which records are moved to Kafka and the stream is measured.
	moveEvery = time.Second
)

var errFull = errors.New("the stream of waiting records is full")

// releaseScript deletes the lease if the calling process holds it.
var releaseScript = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// redisStream is the Redis stream of the records that wait for Kafka. All gateways share it.
type redisStream struct {
	rdb        redis.UniversalClient
	key, lease string
	self       string // the id of this process, the value of the lease

	timeout   time.Duration // storeTimeout, except in tests
	leaseLife time.Duration // leaseLife, except in tests

	// Only moveToKafka uses the fields below.

	// paused fires when this process may acquire the lease again; nil: it may now.
	paused  <-chan time.Time
	failure error
	// lastTried is the id of the last entry that this process tried to publish before the pause.
	lastTried string
}

type streamEntry struct {
	id        string
	value     []byte
	signature string
}

func newStream(rdb redis.UniversalClient, key string) *redisStream {
	return &redisStream{rdb: rdb, key: key, lease: key + ":lease", self: ids.NewV7().String(), timeout: storeTimeout, leaseLife: leaseLife}
}

func (s *redisStream) add(ctx context.Context, h waitingRecord) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	n, err := s.rdb.XLen(ctx, s.key).Result()
	if err != nil {
		return storeError(err)
	}
	if n >= maxWaiting || n >= maxWaiting/2 && !h.act {
		return errFull
	}
	return storeError(s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: s.key, Values: []any{field, h.Value, signatureField, h.Headers[kafka.HeaderSignature]}}).Err())
}

// acquireLease acquires or prolongs the lease, and reports whether this process may move records.
// If two gateways move records at once, they may publish some twice, which does no harm.
func (s *redisStream) acquireLease(ctx context.Context) (bool, error) {
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

// yieldLease releases the lease after a failure, and does not acquire it again for pauseLife:
// perhaps another gateway can reach Kafka. It returns the failure.
func (s *redisStream) yieldLease(ctx context.Context, failure error) error {
	s.paused, s.failure = time.After(pauseLife), failure
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	return errors.Join(failure, storeError(releaseScript.Run(ctx, s.rdb, []string{s.lease}, s.self).Err()))
}

// pauseCause returns the failure because of which this process must not acquire the lease now, else
// nil.
func (s *redisStream) pauseCause() error {
	select {
	case <-s.paused:
		s.paused, s.failure = nil, nil
	default: // also without a pause
	}
	return s.failure
}

// read returns the oldest entries after the one whose id is after; "" means from the beginning. An
// entry that was not written by a gateway gets an empty value.
func (s *redisStream) read(ctx context.Context, after string) ([]streamEntry, error) {
	start := "-"
	if after != "" {
		start = "(" + after
	}
	list, err := s.rdb.XRangeN(ctx, s.key, start, "+", moveMax).Result()
	if err != nil {
		return nil, storeError(err)
	}
	entries := make([]streamEntry, len(list))
	for i, m := range list {
		value, _ := m.Values[field].(string)
		signature, _ := m.Values[signatureField].(string)
		entries[i] = streamEntry{id: m.ID, value: []byte(value), signature: signature}
	}
	return entries, nil
}

func (s *redisStream) remove(ctx context.Context, entryIDs []string) error {
	if len(entryIDs) == 0 {
		return nil
	}
	return storeError(s.rdb.XDel(ctx, s.key, entryIDs...).Err())
}

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("records of acts: %w", pkgredis.Err(err))
}

// moveToKafka publishes the records in Redis, oldest first, and removes those that Kafka has
// stored. If the process dies in between, another gateway publishes them again. A record that Kafka
// does not accept stays for the next call, and does not delay the records after it. If Kafka
// accepts none, the lease is released to another gateway.
func (l *Log) moveToKafka(ctx context.Context) error {
	if l.stream == nil {
		return nil
	}
	n, err := l.stream.rdb.XLen(ctx, l.stream.key).Result()
	if err != nil {
		return storeError(err)
	}
	waitingGauge.Set(float64(n))
	if err := l.stream.pauseCause(); err != nil {
		return err
	}
	return l.moveEntries(ctx, n)
}

// moveEntries publishes and removes the entries of the stream; n is how many the stream has.
func (l *Log) moveEntries(ctx context.Context, n int64) error {
	s := l.stream
	var (
		after     string
		failure   error // the first one
		anyAcked  bool  // Kafka has acked a record
		otherPage bool  // no record of the first page was acked, and this is another page
	)
	for n > 0 && ctx.Err() == nil {
		mine, err := s.acquireLease(ctx)
		if err != nil || !mine {
			return errors.Join(failure, err)
		}
		entries, err := s.read(ctx, after)
		if err != nil {
			return errors.Join(failure, err)
		}
		if len(entries) == 0 {
			s.lastTried = ""
			break
		}
		after = entries[len(entries)-1].id
		finished, acked, failed := l.publishEntries(ctx, entries)
		if err := s.remove(ctx, finished); err != nil {
			return errors.Join(failure, failed, err)
		}
		n -= int64(len(finished))
		waitingGauge.Set(float64(max(0, n)))
		anyAcked = anyAcked || acked
		if failed == nil {
			continue
		}
		if failure == nil {
			failure = failed
		}
		switch {
		case anyAcked:
		case otherPage:
			s.lastTried = after
			return s.yieldLease(ctx, failure)
		default:
			// Kafka has accepted none of the oldest records, perhaps because only their partition fails. So
			// each call also tries one later page: the page after lastTried, or else the next one.
			otherPage = true
			if s.lastTried != "" {
				after = s.lastTried
			}
		}
	}
	if failure != nil && !anyAcked {
		return s.yieldLease(ctx, failure)
	}
	return failure
}

// publishEntries publishes entries of the stream. It returns the ids of the entries to remove, whether
// Kafka has stored any, and the first error. An entry that no gateway has made is logged and removed.
func (l *Log) publishEntries(ctx context.Context, entries []streamEntry) (finished []string, acked bool, failure error) {
	var sent []string
	var recs []kafka.Record
	for _, e := range entries {
		rec, err := l.readRecord(e)
		if err != nil {
			l.log.ErrorContext(ctx, "waiting record is not of a gateway, dropped", "value", string(e.value), "error", err)
			finished = append(finished, e.id)
			continue
		}
		sent, recs = append(sent, e.id), append(recs, rec)
	}
	for i, err := range l.publishToKafka(ctx, recs) {
		if err == nil {
			finished, acked = append(finished, sent[i]), true
		} else if failure == nil {
			failure = err
		}
	}
	return finished, acked, failure
}
