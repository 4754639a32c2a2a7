package rpc_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/telemetry"
	"urr.guru/pkg/telemetry/otlp"
	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// Not parallel: the tracer provider is global.
func TestTraceCrossesTheWire(t *testing.T) {
	_, err := otlp.Setup(t.Context(), "rpctest", "", slog.New(slog.DiscardHandler)) // the propagator
	require.NoError(t, err)
	require.False(t, telemetry.Enabled())
	previous := otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(previous) })
	otel.SetTracerProvider(sdktrace.NewTracerProvider()) // spans that go nowhere
	require.True(t, telemetry.Enabled())
	seen := make(chan trace.SpanContext, 1)
	q := serve(t, &fakeQueue{leave: func(ctx context.Context, _ *queuev1.LeaveRequest) (*queuev1.LeaveResponse, error) {
		seen <- trace.SpanContextFromContext(ctx)
		return &queuev1.LeaveResponse{}, nil
	}})
	ctx, span := otel.Tracer("test").Start(t.Context(), "click")
	defer span.End()
	_, err = q.Leave(ctx, &queuev1.LeaveRequest{EventId: "demo"})
	require.NoError(t, err)
	got := <-seen
	require.Equal(t, span.SpanContext().TraceID(), got.TraceID())
	require.NotEqual(t, span.SpanContext().SpanID(), got.SpanID(), "a span of the server's own")
}
