package redis_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/redis"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
)

// A client's figures are exported until the service ends.
func TestAttachExportsFigures(t *testing.T) {
	t.Parallel()
	app := lifecycle.New("attached", lifecycle.Config{ShutdownTimeout: time.Hour}, slog.New(slog.DiscardHandler))
	client, err := redis.Attach(t.Context(), app, redis.Config{Addrs: []string{backendtest.Redis(t)}, PoolSize: 7})
	require.NoError(t, err)
	require.Positive(t, metricstest.ByName(t, "pool", "attached-redis")["urr_pool_connections_max"], "before the first read")
	require.NoError(t, client.Ping(t.Context()).Err())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	testkit.Until(t, func() bool {
		seen := metricstest.ByName(t, "pool", "attached-redis")
		return seen["urr_pool_acquires_total"] >= 1 && seen["urr_pool_connections"] >= 1
	}, "the figures are read")
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, metricstest.ByName(t, "pool", "attached-redis"))
}
