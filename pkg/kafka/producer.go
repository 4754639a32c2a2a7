package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/errs"
)

// scope is the name under which this package makes spans.
const scope = "urr.guru/pkg/kafka"

// How long a call of a producer, or of a prober, waits for acks; records without an ack then fail.
// The call's context applies it: the library's RecordDeliveryTimeout counts from the record's
// timestamp, so an event that waited longer in an outbox could never be sent.
const (
	deliveryTimeout = 8 * time.Second
	probeTimeout    = time.Second
)

// Producer publishes records. It is safe for concurrent use.
type Producer struct {
	cfg        Config
	client     *kgo.Client
	*Signer                  // nil: records keep the signatures that they have
	timeout    time.Duration // of one call
	partitions *partitionCounts
}

// ProducerOption is an option of NewProducer.
type ProducerOption func(*Producer)

// WithTimeout sets how long a call waits for acks, instead of 8 s.
func WithTimeout(d time.Duration) ProducerOption { return func(p *Producer) { p.timeout = d } }

// NewProducer makes an idempotent producer that waits for the acks of all in-sync replicas, and signs
// each record that has no signature. It connects when it first publishes.
func NewProducer(cfg Config, name string, opts ...ProducerOption) (*Producer, error) {
	p, err := newSigningProducer(cfg, name)
	if err != nil {
		return nil, err
	}
	for _, opt := range opts {
		opt(p)
	}
	return p, nil
}

// NewProber makes a producer for records whose publishing may hang: a call waits for at most one
// second. It has its own connections, since a broker answers requests of a connection in order.
func NewProber(cfg Config, name string) (*Producer, error) {
	p, err := newSigningProducer(cfg, name+"-prober", kgo.ProduceRequestTimeout(probeTimeout))
	if err != nil {
		return nil, err
	}
	p.timeout = probeTimeout
	return p, nil
}

// NewRedriver makes a producer for redriven dead letters, which keep the signatures that they have.
func NewRedriver(cfg Config, name string) (*Producer, error) { return newProducer(cfg, name) }

func newSigningProducer(cfg Config, name string, more ...kgo.Opt) (*Producer, error) {
	signer, err := NewSigner(cfg)
	if err != nil {
		return nil, err
	}
	p, err := newProducer(cfg, name, more...)
	if err != nil {
		return nil, err
	}
	p.Signer = signer
	return p, nil
}

func newProducer(cfg Config, name string, more ...kgo.Opt) (*Producer, error) {
	partitions := &partitionCounts{}
	client, err := cfg.newClient(name, append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(time.Millisecond),
		kgo.RecordPartitioner(partitions.partitioner()),
		// Without this option a call would wait for a hanging broker beyond its context.
		kgo.AllowIdempotentProduceCancellation(),
	}, more...)...)
	if err != nil {
		return nil, err
	}
	return &Producer{cfg: cfg, client: client, timeout: deliveryTimeout, partitions: partitions}, nil
}

// Publish sends the records and waits until each is acked by all in-sync replicas or has failed.
// Records of one key keep their order: when one fails, the later ones of its partition in the call
// fail too. The error is an errs.ErrUnavailable with the number of failures. A record that timed
// out may still have arrived, so consumers deduplicate by ce_id.
func (p *Producer) Publish(ctx context.Context, recs ...Record) error {
	failed := 0
	var first error
	for i, err := range p.PublishEach(ctx, recs) {
		if err != nil && first == nil {
			first = fmt.Errorf("publish to %s: %w", recs[i].Topic, err)
		}
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return errs.ErrUnavailable.Wrap(fmt.Errorf("%d of %d records: %w", failed, len(recs), first))
}

// PublishEach is like Publish, but returns one error per record, in order; nil means acked.
func (p *Producer) PublishEach(ctx context.Context, recs []Record) []error {
	results := make([]error, len(recs))
	if len(recs) == 0 {
		return results
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	ctx, span := startPublish(ctx, recs)
	defer span.End()
	out := p.toBroker(ctx, recs)
	index := make(map[*kgo.Record]int, len(recs))
	for i, r := range out {
		index[r] = i
	}
	for _, res := range p.client.ProduceSync(ctx, out...) {
		results[index[res.Record]] = res.Err
	}
	if err := errors.Join(results...); err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, "")
	}
	return results
}

// toBroker converts records to those of the library, with the trace of ctx and signatures.
func (p *Producer) toBroker(ctx context.Context, recs []Record) []*kgo.Record {
	out := make([]*kgo.Record, len(recs))
	unsigned, topics := make([]*kgo.Record, 0, len(recs)), make([]string, 0, len(recs))
	for i, r := range recs {
		out[i] = r.toKgo()
		out[i].Topic = p.cfg.prefixedTopic(r.Topic)
		if _, ok := r.Headers["traceparent"]; !ok {
			injectTrace(ctx, out[i])
		}
		if _, signed := r.Headers[HeaderSignature]; !signed {
			unsigned, topics = append(unsigned, out[i]), append(topics, r.Topic)
		}
	}
	if p.Signer != nil {
		signRecords(p.key.get(), topics, unsigned)
	}
	return out
}

func (p *Producer) Ping(ctx context.Context) error {
	if err := p.client.Ping(ctx); err != nil {
		return errs.ErrUnavailable.Wrap(fmt.Errorf("kafka: %w", err))
	}
	return nil
}

// Close waits for the records in flight, at most until ctx ends, and closes the connections.
func (p *Producer) Close(ctx context.Context) error {
	err := p.client.Flush(ctx)
	p.client.Close()
	if err != nil {
		return fmt.Errorf("flush the kafka producer: %w", err)
	}
	return nil
}

// startPublish starts the span limit of one call. As OpenTelemetry's messaging conventions say for
// batches, it links to the traces of the requests that made the records, which consumers continue.
func startPublish(ctx context.Context, recs []Record) (context.Context, trace.Span) {
	ctx, span := otel.Tracer(scope).Start(ctx, "publish "+recs[0].Topic, //nolint:spancheck // ended by the caller
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			attribute.String("messaging.system", "kafka"),
			attribute.String("messaging.operation.name", "publish"),
			attribute.String("messaging.destination.name", recs[0].Topic),
			attribute.Int("messaging.batch.message_count", len(recs)),
		))
	addLinks(span, recs)
	return ctx, span //nolint:spancheck // ended by the caller
}

func addLinks(span trace.Span, recs []Record) {
	if !span.IsRecording() {
		return
	}
	for _, r := range recs {
		if sc := spanContext(r.Headers); sc.IsValid() {
			span.AddLink(trace.Link{SpanContext: sc})
		}
	}
}

func spanContext(headers map[string]string) trace.SpanContext {
	if headers["traceparent"] == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(headers))
	return trace.SpanContextFromContext(ctx)
}

func injectTrace(ctx context.Context, r *kgo.Record) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for k, v := range carrier {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
}
