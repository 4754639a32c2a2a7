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

// hook makes a client span per command or pipeline, but only inside a recorded trace, so that hot
// paths without one cost nothing.
type hook struct{}

var _ redis.Hook = hook{}

func (hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, cmd)
		}
		ctx, span := start(ctx, cmd.FullName(), 1)
		defer span.End()
		return record(span, next(ctx, cmd))
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return next(ctx, cmds)
		}
		ctx, span := start(ctx, "PIPELINE", len(cmds))
		defer span.End()
		return record(span, next(ctx, cmds))
	}
}

func start(ctx context.Context, name string, n int) (context.Context, trace.Span) {
	return otel.Tracer("urr.guru/pkg/redis").Start(ctx, name, //nolint:spancheck // ended by the caller
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.Int("db.operation.batch.size", n)))
}

func record(span trace.Span, err error) error {
	if err != nil && !errors.Is(err, redis.Nil) {
		span.RecordError(err)
		span.SetStatus(codes.Error, "")
	}
	return err
}
