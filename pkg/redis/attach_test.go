package redis_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/waittest"
)

// A client's figures are exported until the service ends.
func TestAttachExportsFigures(t *testing.T) {
	t.Parallel()
	app := lifecycle.New("attached", lifecycle.Config{ShutdownTimeout: time.Hour}, slog.New(slog.DiscardHandler))
	client, err := redis.Attach(t.Context(), app, redis.Config{Addrs: []string{backendtest.Redis(t)}, PoolSize: 7})
	require.NoError(t, err)
	require.Positive(t, poolFigures(t, "attached-redis")["urr_pool_connections_max"], "before the first read")
	require.NoError(t, client.Ping(t.Context()).Err())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	waittest.Until(t, func() bool {
		seen := poolFigures(t, "attached-redis")
		return seen["urr_pool_acquires_total"] >= 1 && seen["urr_pool_connections"] >= 1
	}, "the figures are read")
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, poolFigures(t, "attached-redis"))
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
