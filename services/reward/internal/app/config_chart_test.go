package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/reward/internal/app"
)

// Config must load from the environment that the chart sets.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "reward")
	require.Equal(t, "http://sandbox:8080/rewards", dev.PointURL)
	require.Equal(t, "http://sandbox:8080/rewards", dev.CouponURL)
	require.Empty(t, dev.PointToken.Reveal())
	require.Equal(t, "postgres://urr@postgres:5432/urr_reward", dev.Postgres.URL.Reveal())
	require.Contains(t, dev.RPC.Accept, "gateway")
	require.Equal(t, "dns:///urr-ingest-headless:9000", dev.Ingest.Addr)

	prod := charttest.ProductionConfig[app.Config](t, "reward", "--set", "kafka.brokers={k1:9092},kafka.sasl=AWS_MSK_IAM", "--set", "rpc.calls.ingest.address=none",
		"--set", "config.REWARD_POINT_URL=https://points.example/api", "--set", "secrets.REWARD_POINT_TOKEN.name=points",
		"--set", "config.REWARD_CALL_TIMEOUT=5s", "--set", "config.REWARD_LEASE=15s", "--set", "config.REWARD_RATE=200", "--set", "config.REWARD_RETRY_MAX=2h")
	require.Greater(t, prod.ShutdownTimeout*3/8, 10*time.Second, "the share of workers: calls of the default timeout can end")
	require.Equal(t, "https://points.example/api", prod.PointURL)
	require.NotEmpty(t, prod.PointToken.Reveal())
	require.Empty(t, prod.CouponToken.Reveal())
	require.Equal(t, 5*time.Second, prod.CallTimeout)
	require.Equal(t, 15*time.Second, prod.Lease)
	require.Equal(t, 200, prod.Rate)
	require.Equal(t, 2*time.Hour, prod.RetryMax)
	require.Equal(t, 720*time.Hour, prod.LookupRetention)
}
