package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/telemetry/metricstest"
)

// The metrics of a pool are exported until the service ends, and count callers that timed out.
func TestAttachExportsFigures(t *testing.T) {
	t.Parallel()
	app := lifecycle.New("attached", lifecycle.Config{ShutdownTimeout: time.Hour}, slog.New(slog.DiscardHandler))
	pool, err := postgres.AttachReads(t.Context(), app, postgres.Config{URL: postgrestest.URL(t), MaxConns: 1})
	require.NoError(t, err)
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = pool.Acquire(impatient)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	seen := metricstest.ByName(t, "pool", "attached-reads")
	require.InDelta(t, 1, seen["urr_pool_connections_max"], 0)
	require.InDelta(t, 1, seen["urr_pool_connections"], 0)
	require.InDelta(t, 1, seen["urr_pool_timeouts_total"], 0)
	held.Release()

	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, app.Run(ended))
	require.Empty(t, metricstest.ByName(t, "pool", "attached-reads"))
}
