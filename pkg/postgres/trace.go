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

// tracer makes a client span per query, but only inside a recorded trace, so that pollers and hot
// paths without one cost nothing.
type tracer struct{}

var _ pgx.QueryTracer = tracer{}

func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx
	}
	ctx, _ = otel.Tracer("urr.guru/pkg/postgres").Start(ctx, spanName(data.SQL), //nolint:spancheck // ended by TraceQueryEnd
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "postgresql"), attribute.String("db.query.text", data.SQL)))
	return context.WithValue(ctx, spanKey{}, true)
}

// spanKey marks a context whose span was started by this tracer, so that the end of a query never
// ends its caller's span.
type spanKey struct{}

func (tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if ctx.Value(spanKey{}) == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if data.Err != nil {
		span.RecordError(data.Err)
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// spanName is the query's name in sqlc's leading comment ("-- name: GetPayment :one"), else its
// first word.
func spanName(sql string) string {
	if rest, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	word, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToUpper(strings.TrimSpace(word))
}
