package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

// A pool's figures are exported until the service ends, and show callers that waited in vain.
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
	seen := poolFigures(t, "attached-reads")
	require.InDelta(t, 1, seen["urr_pool_connections_max"], 0)
	require.InDelta(t, 1, seen["urr_pool_connections"], 0)
	require.InDelta(t, 1, seen["urr_pool_timeouts_total"], 0)
	held.Release()

	ended, end := context.WithCancel(t.Context())
	end()
	require.NoError(t, app.Run(ended))
	require.Empty(t, poolFigures(t, "attached-reads"))
}

// poolFigures are the figures of a pool by the metric's name, summed over states.
func poolFigures(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "pool" && l.GetValue() == name {
					values[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
	}
	return values
}
