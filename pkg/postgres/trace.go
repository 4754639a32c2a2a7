package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracer makes a client span for each query and batch, but only inside a recorded trace: other
// statements, such as those of pollers, cost nothing.
type tracer struct{}

var (
	_ pgx.QueryTracer = tracer{}
	_ pgx.BatchTracer = tracer{}
)

func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	return startSpan(ctx, spanName(data.SQL), attribute.String("db.query.text", data.SQL))
}

func (tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	endSpan(ctx, data.Err)
}

func (tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	texts := make([]string, data.Batch.Len())
	for i, q := range data.Batch.QueuedQueries {
		texts[i] = q.SQL
	}
	return startSpan(ctx, "BATCH", attribute.String("db.query.text", strings.Join(texts, "; ")), attribute.Int("db.operation.batch.size", len(texts)))
}

func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	endSpan(ctx, data.Err)
}

// spanKey is the context key that marks a span as started by this tracer, so that the end of a
// query never ends the span of its caller.
type spanKey struct{}

func startSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) context.Context {
	ctx, _ = otel.Tracer("urr.guru/pkg/postgres").Start(ctx, name, //nolint:spancheck // ended by endSpan
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "postgresql")), trace.WithAttributes(attrs...))
	return context.WithValue(ctx, spanKey{}, true)
}

func endSpan(ctx context.Context, err error) {
	if ctx.Value(spanKey{}) == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// spanName returns the name of a query from sqlc's leading comment ("-- name: GetPayment :one"), or
// else the first word of the SQL.
func spanName(sql string) string {
	if rest, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToUpper(strings.TrimSpace(word))
}
