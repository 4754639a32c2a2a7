// Package audit records the acts of operators in the Kafka topic audit-events: each before it is
// forwarded to a service, and again with its outcome.
//
// While Kafka is unavailable, acts that stop or slow a sale are served, and their records are kept
// in a Redis stream that all gateways share. All other acts are refused. If Redis is unavailable
// too, the records are kept in this process, since an operator must be able to stop a sale even
// then. Such acts are also in the process's log. An act's record is stored in:
//
//	Kafka   Redis   an act that stops         another act
//	up      any     Kafka                     Kafka
//	down    up      Redis, then Kafka         refused
//	down    down    memory, then either       refused
//
// A record can arrive in Kafka more than once, and the record of a refused act can arrive late. The
// stats service consumes the topic, and keeps one record per act id.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/loop"
)

// publishTimeout is the longest time that an act waits for Kafka. It and storeTimeout together are
// at most half of a request's time-out, so that the service behind the route has the other half.
const publishTimeout = 1500 * time.Millisecond

// maxHeld is the most records that may wait in memory for Kafka. Records of outcomes may fill only
// half of it, so that there is room for records of acts.
const maxHeld = 1000

// Publisher publishes records to Kafka; outside tests it is a kafka.Producer.
type Publisher interface {
	// PublishEach returns one result per record, in order; nil means that Kafka has stored it.
	PublishEach(ctx context.Context, recs []kafka.Record) []error
	// Sign signs a record, which may wait before it is published. Verify fails if a gateway has not
	// signed it.
	Sign(r kafka.Record) kafka.Record
	Verify(r kafka.Record) error
}

var _ Publisher = (*kafka.Producer)(nil)

// Log records acts. It is safe for concurrent use.
type Log struct {
	kafka  Publisher
	stream *redisStream // nil: there is no Redis
	now    func() time.Time
	log    *slog.Logger

	mu     sync.Mutex
	memory []waitingRecord
	// inFlight is how many records flushMemory has removed from memory and not yet stored elsewhere.
	inFlight int
	wake     chan struct{}
}

// waitingRecord is a record that waits in memory until Kafka or Redis has stored it.
type waitingRecord struct {
	kafka.Record

	// act is true for the record of an act, false for that of an outcome, which may be lost.
	act bool
}

// New makes a Log that publishes to Kafka. While Kafka is unavailable, records are kept in the
// Redis stream key, or if rdb is nil only in memory.
func New(publisher Publisher, rdb redis.UniversalClient, key string, log *slog.Logger, now func() time.Time) *Log {
	l := &Log{kafka: publisher, now: now, log: log, wake: make(chan struct{}, 1)}
	if rdb != nil {
		l.stream = newStream(rdb, key)
	}
	return l
}

// RecordAct records an act before it is forwarded. It fails with errs.ErrAuditUnavailable if Kafka
// does not store the record and the act does not stop a sale. After an error, the act must not be
// forwarded.
func (l *Log) RecordAct(ctx context.Context, a *Act) error {
	rec, err := l.newRecord(a.actedEvent())
	if err != nil {
		return err
	}
	err = l.publishToKafka(ctx, []kafka.Record{rec})[0]
	switch {
	case err == nil:
		records.WithLabelValues(inKafka).Inc()
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("record the act: %w", context.Cause(ctx)) // the client does not wait any longer
	case !a.ServedWithoutKafka:
		records.WithLabelValues(refused).Inc()
		return errs.ErrAuditUnavailable.Wrap(err)
	}
	place := l.storeUntilSent(ctx, waitingRecord{Record: rec, act: true})
	records.WithLabelValues(place).Inc()
	about := slog.Group("", "in", place, "act_id", a.ID.String(), "user_id", a.UserID,
		"address", a.Address, "method", a.Method, "path", a.Path, "error", err)
	if place == droppedRecord {
		l.log.ErrorContext(ctx, "act not recorded in Kafka, its record is dropped", about)
	} else {
		l.log.WarnContext(ctx, "act not recorded in Kafka, its record waits", about)
	}
	return nil
}

// RecordOutcome records the outcome of an act in the background. RecordAct was called before. The
// record may be lost; then the audit log does not say whether the act took effect.
func (l *Log) RecordOutcome(a *Act, o Outcome) {
	rec, err := l.newRecord(a.endedEvent(o, l.now()))
	if err != nil {
		l.log.Error("outcome of an act lost", "act_id", a.ID.String(), "error", err)
		return
	}
	l.bufferInMemory(waitingRecord{Record: rec})
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Log) publishToKafka(ctx context.Context, recs []kafka.Record) []error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	results := l.kafka.PublishEach(ctx, recs)
	for i, err := range results {
		if err != nil {
			results[i] = fmt.Errorf("publish to %s: %w", recs[i].Topic, err)
		}
	}
	return results
}

// storeUntilSent keeps the record of an act in Redis, else in memory, until Kafka accepts it. place
// is where it is now.
func (l *Log) storeUntilSent(ctx context.Context, h waitingRecord) (place string) {
	if l.stream != nil {
		err := l.stream.add(ctx, h)
		if err == nil {
			return inRedis
		}
		l.log.WarnContext(ctx, "act not recorded in Redis", "error", err)
	}
	if !l.bufferInMemory(h) {
		return droppedRecord
	}
	return inMemory
}

// bufferInMemory adds records to those in memory. If maxHeld/2 records are there, an outcome is
// dropped. If maxHeld records are there, an act replaces an outcome; without any outcome it is
// dropped too. ok is false if an act was dropped; it is still in the process's log.
func (l *Log) bufferInMemory(more ...waitingRecord) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addLocked(more)
}

// addLocked does what bufferInMemory does; the caller has locked mu.
func (l *Log) addLocked(more []waitingRecord) (ok bool) {
	ok = true
	for _, h := range more {
		switch {
		case len(l.memory) < maxHeld/2 || h.act && len(l.memory) < maxHeld:
			l.memory = append(l.memory, h)
			continue
		case h.act:
			if i := slices.IndexFunc(l.memory, func(h waitingRecord) bool { return !h.act }); i >= 0 {
				l.memory = append(slices.Delete(l.memory, i, i+1), h)
			} else {
				ok = false
			}
		}
		dropped.Inc()
	}
	heldGauge.Set(float64(len(l.memory) + l.inFlight))
	return ok
}

// takeAll removes and returns the records in memory. Until putBack is called, the gauge of waiting
// records still counts them, since neither Kafka nor Redis has stored them yet.
func (l *Log) takeAll() []waitingRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.memory
	l.memory, l.inFlight = nil, len(taken)
	return taken
}

// putBack puts back into memory those records of takeAll that neither Kafka nor Redis has stored.
func (l *Log) putBack(kept []waitingRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = 0
	l.addLocked(kept)
}

// Run publishes the waiting records until ctx ends, and then once more those in memory. What Kafka
// and Redis do not accept even then is lost, but the acts among it are in the process's log.
func (l *Log) Run(ctx context.Context) error {
	failing := false
	for {
		err := errors.Join(l.flushMemory(ctx), l.moveToKafka(ctx))
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			if failing = failed; failed {
				l.log.WarnContext(ctx, "records of acts wait", "error", err)
			} else {
				l.log.InfoContext(ctx, "records of acts are published again")
			}
		}
		if !loop.SleepOrWake(ctx, moveEvery, l.wake) {
			break
		}
	}
	ctx = context.WithoutCancel(ctx)
	if err := l.flushMemory(ctx); err != nil {
		l.log.WarnContext(ctx, "records of acts lost", "records", len(l.takeAll()), "error", err)
	}
	return nil
}

// flushMemory publishes the records in memory. Those that Kafka does not accept it moves to Redis.
func (l *Log) flushMemory(ctx context.Context) error {
	taken := l.takeAll()
	if len(taken) == 0 {
		return nil
	}
	kept, err := l.publishOrStore(ctx, taken)
	l.putBack(kept)
	return err
}

// publishOrStore publishes records, and stores in Redis those that Kafka does not accept. It
// returns the records that neither has stored, and the errors.
func (l *Log) publishOrStore(ctx context.Context, taken []waitingRecord) (kept []waitingRecord, err error) {
	recs := make([]kafka.Record, len(taken))
	for i, h := range taken {
		recs[i] = h.Record
	}
	var failed []waitingRecord
	var firstErr error
	for i, err := range l.publishToKafka(ctx, recs) {
		if err != nil {
			failed = append(failed, taken[i])
			if firstErr == nil {
				firstErr = err
			}
		}
	}
	if len(failed) == 0 || l.stream == nil {
		return failed, firstErr
	}
	kept, err = l.storeInRedis(ctx, failed)
	if err == nil {
		return nil, nil // moveToKafka reports what waits in Redis
	}
	return kept, errors.Join(firstErr, err)
}

// storeInRedis adds records to Redis. It returns those that Redis has not stored, and the error.
func (l *Log) storeInRedis(ctx context.Context, list []waitingRecord) (kept []waitingRecord, err error) {
	for i, h := range list {
		if err != nil && !h.act {
			kept = append(kept, h) // Redis has room for acts only
			continue
		}
		failed := l.stream.add(ctx, h)
		switch {
		case failed == nil:
		case errors.Is(failed, errFull) && !h.act:
			kept, err = append(kept, h), failed
		default:
			return append(kept, list[i:]...), failed
		}
	}
	return kept, err
}
