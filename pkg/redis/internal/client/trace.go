package client

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracingHook makes a client span for each command or pipeline, but only inside a recorded trace;
// other calls cost nothing.
type tracingHook struct{}

var _ redis.Hook = tracingHook{}

func (tracingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (tracingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, cmd)
		}
		ctx, span := startSpan(ctx, cmd.FullName(), 1)
		defer span.End()
		return recordError(span, next(ctx, cmd))
	}
}

func (tracingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, cmds)
		}
		ctx, span := startSpan(ctx, "PIPELINE", len(cmds))
		defer span.End()
		return recordError(span, next(ctx, cmds))
	}
}

func startSpan(ctx context.Context, name string, n int) (context.Context, trace.Span) {
	return otel.Tracer("urr.guru/pkg/redis").Start(ctx, name, //nolint:spancheck // ended by the caller
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.Int("db.operation.batch.size", n)))
}

func recordError(span trace.Span, err error) error {
	if err != nil && !errors.Is(err, redis.Nil) {
		span.RecordError(err)
		span.SetStatus(codes.Error, "")
	}
	return err
}
