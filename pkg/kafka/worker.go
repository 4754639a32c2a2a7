package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/errs"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
	// maxAttempts is how often an error that is not known to pass is tried again before the record is put aside.
	maxAttempts = 20
	// maxErrorHeader bounds the header `error` of a dead letter.
	maxErrorHeader = 500
)

// worker processes one partition, in order.
type worker struct {
	c      *Consumer
	client *kgo.Client
	part   partition
	log    *slog.Logger

	ctx    context.Context //nolint:containedctx // the worker's life, not a request's: the handlers', ends stopGrace after quit
	cancel context.CancelFunc
	quit   chan struct{}
	done   chan struct{}
	wake   chan struct{}

	mu      sync.Mutex
	backlog []*kgo.Record
	paused  bool
}

func newWorker(ctx context.Context, c *Consumer, client *kgo.Client, part partition) *worker {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &worker{
		c: c, client: client, part: part, log: c.log.With("topic", part.topic, "partition", part.id),
		ctx: ctx, cancel: cancel, quit: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// push adds fetched records; past the limit the partition is not fetched until they are done.
func (w *worker) push(recs []*kgo.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backlog = append(w.backlog, recs...)
	if len(w.backlog) >= backlogLimit && !w.paused {
		w.paused = true
		w.client.PauseFetchPartitions(w.onBroker())
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) onBroker() map[string][]int32 {
	return map[string][]int32{w.c.cfg.topic(w.part.topic): {w.part.id}}
}

// next waits for records; nil means that the worker has to stop.
func (w *worker) next() []*kgo.Record {
	for {
		select {
		case <-w.quit:
			return nil
		default:
		}
		w.mu.Lock()
		recs := w.backlog
		w.backlog = nil
		if w.paused {
			w.paused = false
			w.client.ResumeFetchPartitions(w.onBroker())
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
	for recs := w.next(); recs != nil; recs = w.next() {
		for len(recs) > 0 {
			n := min(w.c.handler.max, len(recs))
			if !w.process(recs[:n]) {
				return
			}
			recs = recs[n:]
		}
	}
}

// stopAll ends workers: each finishes what it is processing, for up to stopGrace, then its context is cancelled.
func stopAll(workers []*worker) {
	for _, w := range workers {
		close(w.quit)
	}
	timer := time.AfterFunc(stopGrace, func() {
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

// process brings the chunk to an end, done or put aside, and marks it. false: the worker has to stop, the chunk is not marked.
func (w *worker) process(chunk []*kgo.Record) bool {
	mine := w.addressed(chunk)
	backoff := w.c.backoff
	for attempt := 1; len(mine) > 0; attempt++ {
		err := w.call(mine)
		if err == nil {
			break
		}
		if w.stopping() {
			return false
		}
		if IsPoison(err) || (attempt >= maxAttempts && !transient(err)) {
			if !w.putAside(mine, err) {
				return false
			}
			break
		}
		w.log.WarnContext(w.ctx, "record failed, trying again", "offset", mine[0].Offset, "attempt", attempt, "error", err)
		if !w.wait(backoff/2 + rand.N(backoff)) { //nolint:gosec // jitter
			return false
		}
		backoff = min(backoff*2, maxBackoff)
	}
	w.client.MarkCommitRecords(chunk[len(chunk)-1])
	return true
}

// addressed leaves out what was redriven for another group.
func (w *worker) addressed(chunk []*kgo.Record) []*kgo.Record {
	for i, r := range chunk {
		if w.foreign(r) {
			mine := append([]*kgo.Record(nil), chunk[:i]...)
			for _, r := range chunk[i+1:] {
				if !w.foreign(r) {
					mine = append(mine, r)
				}
			}
			return mine
		}
	}
	return chunk
}

func (w *worker) foreign(r *kgo.Record) bool {
	for _, h := range r.Headers {
		if h.Key == HeaderGroup {
			return string(h.Value) != w.c.group
		}
	}
	return false
}

// call runs the handler inside a consumer span that continues the record's trace (a batch's links to them all).
func (w *worker) call(chunk []*kgo.Record) (err error) {
	recs := make([]Record, len(chunk))
	for i, r := range chunk {
		recs[i] = FromKgo(r)
		recs[i].Topic = w.part.topic
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
			err = Poison(fmt.Errorf("panic: %v", p))
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

// putAside sends a record that cannot be processed to the dead-letter topic; of several, each is tried alone first.
func (w *worker) putAside(chunk []*kgo.Record, cause error) bool {
	if len(chunk) > 1 {
		for i := range chunk {
			if !w.process(chunk[i : i+1]) {
				return false
			}
		}
		return true
	}
	letter := deadLetter(chunk[0], w.c.group, cause)
	for backoff := firstBackoff; ; backoff = min(backoff*2, maxBackoff) {
		err := w.client.ProduceSync(w.ctx, letter).FirstErr()
		if err == nil {
			w.log.ErrorContext(w.ctx, "record put aside", "offset", chunk[0].Offset, "dlq", letter.Topic, "error", cause)
			return true
		}
		w.log.WarnContext(w.ctx, "dead letter not written, trying again", "offset", chunk[0].Offset, "error", err)
		if !w.wait(backoff) {
			return false
		}
	}
}

// deadLetter is the record with its original bytes and headers, and what an operator needs to redrive it.
func deadLetter(r *kgo.Record, group string, cause error) *kgo.Record {
	letter := &kgo.Record{Topic: r.Topic + DLQSuffix, Key: r.Key, Value: r.Value}
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
		kgo.RecordHeader{Key: HeaderOrigin, Value: []byte(origin(r))})
	return letter
}

// transient reports errors that pass by themselves: a backend is away or has too much to do.
func transient(err error) bool {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	switch errs.From(err).Kind {
	case errs.Unavailable, errs.Deadline, errs.Exhausted, errs.Canceled:
		return true
	default:
		return false
	}
}

func (w *worker) stopping() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// wait pauses; false when the worker has to stop.
func (w *worker) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.quit:
		return false
	case <-timer.C:
		return true
	}
}
