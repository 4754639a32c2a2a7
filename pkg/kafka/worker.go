package kafka

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
	// maxRecordBackoff is the longest pause between attempts at a record that itself causes the
	// failure. It makes the record a dead letter after about a minute. Two minutes would be too late:
	// the payment service refuses confirmations while a group is 2 min behind.
	maxRecordBackoff = 4 * time.Second
	// maxAttempts is how many times a single record is tried, not counting transient errors, before
	// it goes to the dead-letter topic.
	maxAttempts = 20
	// maxErrorHeader is the largest size of a dead letter's header `error`, in bytes.
	maxErrorHeader = 500
)

// worker processes the records of one assigned partition, in order.
type worker struct {
	c      *Consumer
	client *kgo.Client
	part   partition
	log    *slog.Logger

	ctx    context.Context //nolint:containedctx // of the worker, not of a request; cancelled a grace period after quit
	cancel context.CancelFunc
	quit   chan struct{}
	done   chan struct{}
	wake   chan struct{}

	redrives bool // the partition has redriven letters, which may be of several topics
	failed   bool // the metric failingSince is set; only the goroutine of run uses it

	mu      sync.Mutex
	backlog []*kgo.Record
	paused  bool
}

func newWorker(ctx context.Context, c *Consumer, client *kgo.Client, part partition) *worker {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &worker{
		c: c, client: client, part: part, log: c.log.With("topic", part.topic, "partition", part.id),
		ctx: ctx, cancel: cancel, quit: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
		redrives: part.topic == RedriveTopic(c.group),
	}
}

// addRecords adds fetched records to the backlog. When the backlog is full, no more records of this
// partition are fetched until the backlog is processed.
func (w *worker) addRecords(recs []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backlog = append(w.backlog, recs...)
	if len(w.backlog) >= backlogLimit && !w.paused {
		w.paused = true
		w.client.PauseFetchPartitions(w.brokerPartition())
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) brokerPartition() map[string][]int32 {
	return map[string][]int32{w.c.cfg.prefixedTopic(w.part.topic): {w.part.id}}
}

// takeBacklog waits for records and returns all that have arrived; nil if the worker must stop.
func (w *worker) takeBacklog() []*kgo.Record {
	for {
		if w.stopping() {
			return nil
		}
		w.mu.Lock()
		recs := w.backlog
		w.backlog = nil
		if w.paused {
			w.paused = false
			w.client.ResumeFetchPartitions(w.brokerPartition())
		}
		w.mu.Unlock()
		if len(recs) > 0 {
			return recs
		}
		select {
		case <-w.quit:
		case <-w.wake:
		}
	}
}

func (w *worker) run() {
	defer close(w.done)
	for recs := w.takeBacklog(); recs != nil; recs = w.takeBacklog() {
		for len(recs) > 0 {
			n := min(w.c.handler.max, len(recs))
			if w.redrives { // a handler gets records of one topic
				n = 1
			}
			if !w.processRecords(recs[:n]) {
				return
			}
			recs = recs[n:]
		}
	}
}

// stopWorkers stops workers and waits for them. A handler call that is running may finish within
// the grace period; then its context is cancelled.
func (c *Consumer) stopWorkers(workers []*worker) {
	for _, w := range workers {
		close(w.quit)
	}
	timer := time.AfterFunc(c.grace, func() {
		for _, w := range workers {
			w.cancel()
		}
	})
	defer timer.Stop()
	for _, w := range workers {
		<-w.done
		w.cancel()
	}
}

// processRecords handles records, or sends them to the dead-letter topic, and marks them as done.
// It returns false, and marks nothing, when the worker must stop.
func (w *worker) processRecords(chunk []*kgo.Record) bool {
	for rest := chunk; len(rest) > 0; {
		n, refusal := w.countGenuine(rest)
		if n > 0 && !w.handleRecords(rest[:n]) {
			return false
		}
		if refusal != nil && !w.refuse(rest[n], refusal) {
			return false
		}
		rest = rest[min(n+1, len(rest)):]
	}
	w.client.MarkCommitRecords(chunk[len(chunk)-1])
	return true
}

// countGenuine returns how many records there are before the first that is refused, and why it is.
func (w *worker) countGenuine(recs []*kgo.Record) (n int, refusal error) {
	for n, r := range recs {
		if err := w.c.verifier.verify(w.topicOf(r), r); err != nil {
			return n, err
		}
	}
	return len(recs), nil
}

// refuse puts a record aside that is not genuine. It drops one that was redriven and is of no topic that
// the consumer reads: this group has no such letters. It returns false when the worker must stop.
func (w *worker) refuse(rec *kgo.Record, why error) bool {
	defer w.clearFailing()
	topic := w.topicOf(rec)
	refusedRecords.WithLabelValues(w.c.group, cmp.Or(topic, "unknown")).Inc()
	if topic == "" {
		w.log.ErrorContext(w.ctx, "redriven record is no letter of this group, dropped", "offset", rec.Offset)
		return true
	}
	return w.sendToDLQ(rec, Poison(why))
}

// topicOf returns the topic to which a record belongs; "" for a redriven one of a topic that the
// consumer does not read.
func (w *worker) topicOf(r *kgo.Record) string {
	topic := w.c.cfg.topicOf(r, w.part.topic, w.c.group)
	if w.redrives && !slices.Contains(w.c.topics, topic) {
		return ""
	}
	return topic
}

// handleRecords calls the handler until the records are done or dead-lettered. It returns false
// when the worker must stop.
func (w *worker) handleRecords(chunk []*kgo.Record) bool {
	defer w.clearFailing()
	backoff := w.c.backoff
	for failures := 0; ; {
		err := w.callHandler(chunk)
		switch {
		case err == nil:
			return true
		case w.stopping():
			return false
		case len(chunk) > 1 && (!isTransient(err) || isSlow(err)):
			w.log.WarnContext(w.ctx, "batch failed, trying its records one by one", "offset", chunk[0].Offset, "records", len(chunk), "error", err)
			return w.processOneByOne(chunk)
		case IsPoison(err):
			return w.sendToDLQ(chunk[0], err)
		case !isTransient(err):
			if failures++; failures >= maxAttempts {
				return w.sendToDLQ(chunk[0], err)
			}
		}
		w.markFailing()
		w.log.WarnContext(w.ctx, "record failed, trying again", "offset", chunk[0].Offset, "failures", failures, "error", err)
		if !w.waitUnlessStopped(backoff/2 + rand.N(backoff)) { //nolint:gosec // jitter
			return false
		}
		backoff = min(backoff*2, w.c.maxBackoff)
		if !isTransient(err) {
			backoff = min(backoff, maxRecordBackoff)
		}
	}
}

// processOneByOne processes the records of a failed batch one at a time, so that only the bad ones
// are dead-lettered. Each record is marked when it is done, so that a stop repeats none.
func (w *worker) processOneByOne(chunk []*kgo.Record) bool {
	for i := range chunk {
		if !w.processRecords(chunk[i : i+1]) {
			return false
		}
	}
	return true
}

func (w *worker) markFailing() {
	if !w.failed {
		w.failed = true
		failingSince.WithLabelValues(w.part.labels(w.c.group)...).SetToCurrentTime()
	}
}

func (w *worker) clearFailing() {
	if w.failed {
		w.failed = false
		failingSince.DeleteLabelValues(w.part.labels(w.c.group)...)
	}
}

// callHandler calls the handler in a consumer span. For a single record the span continues the
// record's trace; for a batch it links to the traces of all records.
func (w *worker) callHandler(chunk []*kgo.Record) (err error) {
	recs := make([]Record, len(chunk))
	for i, r := range chunk {
		recs[i] = FromKgo(r)
		recs[i].Topic, recs[i].ReadFrom = w.topicOf(r), w.part.topic
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.c.timeout)
	defer cancel()
	if len(recs) == 1 {
		if sc := spanContext(recs[0].Headers); sc.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
		}
	}
	ctx, span := otel.Tracer(scope).Start(ctx, "process "+w.part.topic, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("messaging.system", "kafka"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.consumer.group.name", w.c.group),
			attribute.String("messaging.destination.name", w.part.topic),
			attribute.Int("messaging.batch.message_count", len(recs)),
		))
	if len(recs) > 1 {
		addLinks(span, recs)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			w.log.ErrorContext(ctx, "handler panicked", "offset", chunk[0].Offset, "panic", p, "stack", string(debug.Stack()))
		}
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}()
	return w.c.handler.fn(ctx, recs)
}

// sendToDLQ publishes a record that cannot be processed to the dead-letter topic. It retries until
// that succeeds; it returns false when the worker must stop.
func (w *worker) sendToDLQ(rec *kgo.Record, cause error) bool {
	topic := w.topicOf(rec)
	letter := makeDeadLetter(rec, w.c.cfg.prefixedTopic(topic), w.c.group, cause)
	for backoff := w.c.backoff; ; backoff = min(backoff*2, w.c.maxBackoff) {
		err := w.client.ProduceSync(w.ctx, letter).FirstErr()
		if err == nil {
			deadLetters.WithLabelValues(w.c.group, topic).Inc()
			w.log.ErrorContext(w.ctx, "record put aside", "offset", rec.Offset, "dlq", letter.Topic, "error", cause)
			w.savePosition(rec)
			return true
		}
		w.markFailing()
		w.log.WarnContext(w.ctx, "dead letter not written, trying again", "offset", rec.Offset, "error", err)
		if !w.waitUnlessStopped(backoff) {
			return false
		}
	}
}

// makeDeadLetter makes the dead letter of a record of a topic: its original bytes and headers, and
// headers with the group, the error and the origin.
func makeDeadLetter(r *kgo.Record, topic, group string, cause error) *kgo.Record {
	origin := headerOf(r, HeaderOrigin) // of a redriven letter: where it was first read
	if r.Topic == topic {
		origin = []byte(originOf(r))
	}
	letter := &kgo.Record{Topic: topic + DLQSuffix, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		if h.Key != HeaderGroup && h.Key != HeaderError && h.Key != HeaderOrigin {
			letter.Headers = append(letter.Headers, h)
		}
	}
	text := cause.Error()
	if len(text) > maxErrorHeader {
		text = text[:maxErrorHeader]
	}
	letter.Headers = append(letter.Headers,
		kgo.RecordHeader{Key: HeaderGroup, Value: []byte(group)},
		kgo.RecordHeader{Key: HeaderError, Value: []byte(text)},
		kgo.RecordHeader{Key: HeaderOrigin, Value: origin})
	return letter
}

func (w *worker) stopping() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// waitUnlessStopped waits for d. It returns false, at once, when the worker must stop.
func (w *worker) waitUnlessStopped(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.quit:
		return false
	case <-timer.C:
		return true
	}
}
