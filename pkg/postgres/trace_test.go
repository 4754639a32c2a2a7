package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

// Inside a trace a statement has a span, and so has a batch as a whole.
func TestSpans(t *testing.T) {
	exported := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
	previous := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	t.Cleanup(func() { otel.SetTracerProvider(previous) })

	pool := postgrestest.New(t)
	// send executes two statements together, of which the second divides by a number.
	send := func(ctx context.Context, by int) error {
		return postgres.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
			d := postgres.Defer(tx)
			_, _ = d.Exec(ctx, `SELECT 1`)
			_, _ = d.Exec(ctx, `SELECT 1 / $1::int`, by)
			return d.Send(ctx)
		})
	}
	require.NoError(t, send(t.Context(), 1))
	require.Empty(t, exported.GetSpans(), "outside a trace")

	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	_, err := pool.Exec(ctx, "-- name: Nothing :exec\nSELECT 1")
	require.NoError(t, err)
	require.NoError(t, send(ctx, 1))
	require.Error(t, send(ctx, 0))
	require.True(t, request.IsRecording(), "it ends by its own")
	spans := exported.GetSpans()
	require.Equal(t, []string{"Nothing", "BEGIN", "BATCH", "COMMIT", "BEGIN", "BATCH", "ROLLBACK"}, names(spans))
	require.Contains(t, spans[2].Attributes, attribute.String("db.query.text", "SELECT 1; SELECT 1 / $1::int"))
	require.Contains(t, spans[2].Attributes, attribute.Int("db.operation.batch.size", 2))
	require.Equal(t, []codes.Code{codes.Unset, codes.Error}, []codes.Code{spans[2].Status.Code, spans[5].Status.Code})
	for _, s := range spans {
		require.Equal(t, request.SpanContext().SpanID(), s.Parent.SpanID(), s.Name)
	}
}

func names(spans tracetest.SpanStubs) []string {
	names := make([]string, len(spans))
	for i, s := range spans {
		names[i] = s.Name
	}
	return names
}
