package otlp_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/telemetry"
	"urr.guru/pkg/telemetry/otlp"
)

// An unreachable endpoint must neither fail the start nor delay the end beyond the given time.
func TestSetupDoesNotWaitForTheCollector(t *testing.T) {
	stop, err := otlp.Setup(t.Context(), "ticket", "127.0.0.1:1", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.True(t, telemetry.Enabled())
	_, span := otel.Tracer("test").Start(t.Context(), "work")
	require.True(t, span.SpanContext().IsValid())
	carrier := propagation.MapCarrier{}
	otel.GetTextMapPropagator().Inject(trace.ContextWithSpan(t.Context(), span), carrier)
	require.Contains(t, carrier["traceparent"], span.SpanContext().TraceID().String())
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, stop(ctx), context.DeadlineExceeded, "only the pending metrics are lost")
}

func TestSetupRefusesInvalidEndpoints(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"http://[::1", "ftp://x:1", "http://", "://"} {
		_, err := otlp.Setup(t.Context(), "ticket", endpoint, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "must be http(s)://host:port", endpoint)
	}
}

func TestSetupWithoutEndpoint(t *testing.T) {
	stop, err := otlp.Setup(t.Context(), "ticket", "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, stop(t.Context()))
}
