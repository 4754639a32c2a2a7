// Package audit records the acts of operators in the Kafka topic audit-events, each before it is
// forwarded, and again with its outcome.
//
// While Kafka is unavailable, acts that stop or slow a sale are served all the same, and their
// records wait in a Redis stream that all gateways share; all other acts are refused. If Redis is
// unavailable too, the records wait in this process: whoever stops a sale in an outage must not
// wait for its log. Each such act is in the process's log as well.
//
//	Kafka   Redis   an act that stops         another act
//	up      any     Kafka                     Kafka
//	down    up      Redis, then Kafka         refused
//	down    down    memory, then either       refused
//
// A record may arrive in Kafka more than once, and one whose act was refused may arrive late. Its
// consumer keeps acts by id.
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

// publishTimeout bounds how long an act waits for Kafka. Together with storeTimeout it leaves the
// service behind the route half of the time of a request.
const publishTimeout = 1500 * time.Millisecond

// maxHeld is how many records wait in memory. Outcomes leave half of it to acts.
const maxHeld = 1000

// Publisher publishes records; it is a kafka.Producer.
type Publisher interface {
	// PublishEach returns one result per record, in order; nil means acked.
	PublishEach(ctx context.Context, recs []kafka.Record) []error
}

var _ Publisher = (*kafka.Producer)(nil)

// Log records acts. It is safe for concurrent use.
type Log struct {
	kafka   Publisher
	waiting *stream // nil: there is no Redis
	now     func() time.Time
	log     *slog.Logger

	mu   sync.Mutex
	held []held
	// inFlight is how many records flush has taken and has found no other place for yet.
	inFlight int
	wake     chan struct{}
}

// held is a record that waits in memory.
type held struct {
	kafka.Record

	// act is false for an outcome, which may be lost.
	act bool
}

// New makes a Log that publishes to Kafka. Records wait in the Redis stream key; without a client
// (nil) they wait in memory only.
func New(publisher Publisher, rdb redis.UniversalClient, key string, log *slog.Logger, now func() time.Time) *Log {
	l := &Log{kafka: publisher, now: now, log: log, wake: make(chan struct{}, 1)}
	if rdb != nil {
		l.waiting = newStream(rdb, key)
	}
	return l
}

// Begin records an act that is about to be forwarded. It fails with errs.ErrAuditUnavailable, and the
// act must not be forwarded, when that is impossible and the act does not stop a sale.
func (l *Log) Begin(ctx context.Context, a *Act) error {
	rec, err := newRecord(a.acted())
	if err != nil {
		return err
	}
	err = l.publish(ctx, []kafka.Record{rec})[0]
	switch {
	case err == nil:
		records.WithLabelValues(inKafka).Inc()
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("record the act: %w", context.Cause(ctx)) // the client does not wait any longer
	case !a.Stops:
		records.WithLabelValues(refused).Inc()
		return errs.ErrAuditUnavailable.Wrap(err)
	}
	place := l.keep(ctx, held{Record: rec, act: true})
	records.WithLabelValues(place).Inc()
	about := slog.Group("", "in", place, "act_id", a.ID.String(), "user_id", a.UserID,
		"address", a.Address, "method", a.Method, "path", a.Path, "error", err)
	if place == nowhere {
		l.log.ErrorContext(ctx, "act not recorded in Kafka, its record is dropped", about)
	} else {
		l.log.WarnContext(ctx, "act not recorded in Kafka, its record waits", about)
	}
	return nil
}

// End records the outcome of an act for which Begin was called, in the background. Outcomes may be
// lost: then it stays open whether the act took effect.
func (l *Log) End(a *Act, o Outcome) {
	rec, err := newRecord(a.ended(o, l.now()))
	if err != nil {
		l.log.Error("outcome of an act lost", "act_id", a.ID.String(), "error", err)
		return
	}
	l.hold(held{Record: rec})
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// publish sends records to Kafka. It returns one result per record, in order; nil means acked.
func (l *Log) publish(ctx context.Context, recs []kafka.Record) []error {
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

// keep puts the record of an act where it waits for Kafka, and returns where that is.
func (l *Log) keep(ctx context.Context, h held) (place string) {
	if l.waiting != nil {
		err := l.waiting.add(ctx, h)
		if err == nil {
			return inRedis
		}
		l.log.WarnContext(ctx, "act not recorded in Redis", "error", err)
	}
	if !l.hold(h) {
		return nowhere
	}
	return inMemory
}

// hold keeps records in memory, and reports whether all acts among them found room. An outcome is
// dropped when half of the memory is taken. An act takes the place of an outcome, and is dropped when
// there is none: it is in the log.
func (l *Log) hold(more ...held) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(more)
}

// add is hold for a caller that has locked mu.
func (l *Log) add(more []held) (ok bool) {
	ok = true
	for _, h := range more {
		switch {
		case len(l.held) < maxHeld/2 || h.act && len(l.held) < maxHeld:
			l.held = append(l.held, h)
			continue
		case h.act:
			if i := slices.IndexFunc(l.held, func(h held) bool { return !h.act }); i >= 0 {
				l.held = append(slices.Delete(l.held, i, i+1), h)
			} else {
				ok = false
			}
		}
		dropped.Inc()
	}
	heldGauge.Set(float64(len(l.held) + l.inFlight))
	return ok
}

// take returns what waits in memory. The gauge still counts it until putBack: an attempt takes as
// long as Kafka and Redis time out, and all that time these records are in this process only.
func (l *Log) take() []held {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.held
	l.held, l.inFlight = nil, len(taken)
	return taken
}

// putBack keeps those of the records taken that found no other place.
func (l *Log) putBack(kept []held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight = 0
	l.add(kept)
}

// Run publishes what waits until ctx ends, and then once more what waits in memory.
func (l *Log) Run(ctx context.Context) error {
	failing := false
	for {
		err := errors.Join(l.flush(ctx), l.move(ctx))
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
	return l.last(context.WithoutCancel(ctx))
}

// last empties the memory before the process ends. What remains is in the log only.
func (l *Log) last(ctx context.Context) error {
	if err := l.flush(ctx); err != nil {
		l.log.WarnContext(ctx, "records of acts lost", "records", len(l.take()), "error", err)
	}
	return nil
}

// flush publishes what waits in memory. What Kafka does not take goes to Redis.
func (l *Log) flush(ctx context.Context) error {
	taken := l.take()
	if len(taken) == 0 {
		return nil
	}
	kept, err := l.send(ctx, taken)
	l.putBack(kept)
	return err
}

// send publishes records, and puts those that Kafka does not take into Redis. It returns those that
// neither has taken, and why.
func (l *Log) send(ctx context.Context, taken []held) (kept []held, err error) {
	recs := make([]kafka.Record, len(taken))
	for i, h := range taken {
		recs[i] = h.Record
	}
	var failed []held
	var first error
	for i, err := range l.publish(ctx, recs) {
		if err != nil {
			failed = append(failed, taken[i])
			if first == nil {
				first = err
			}
		}
	}
	if len(failed) == 0 || l.waiting == nil {
		return failed, first
	}
	kept, err = l.store(ctx, failed)
	if err == nil {
		return nil, nil // move reports what waits in Redis
	}
	return kept, errors.Join(first, err)
}

// store puts records into Redis. It returns those for which there is no room, or which Redis did not
// take, and why.
func (l *Log) store(ctx context.Context, list []held) (kept []held, err error) {
	for i, h := range list {
		if err != nil && !h.act {
			kept = append(kept, h) // there is room for acts only
			continue
		}
		failed := l.waiting.add(ctx, h)
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
