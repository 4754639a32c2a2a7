package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/stats/internal/app"
)

// The environment that the Helm chart sets must load into the service's Config.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "stats")
	require.Equal(t, "postgres://urr@postgres:5432/urr_stats", dev.Postgres.URL.Reveal())
	require.Equal(t, []string{"kafka:9092"}, dev.Kafka.Brokers)
	require.Contains(t, dev.RPC.Accept, "gateway")

	prod := charttest.ProductionConfig[app.Config](t, "stats", "--set", "kafka.brokers={k1:9092},kafka.sasl=AWS_MSK_IAM", "--set", "kafka.prefix=blue-",
		"--set", "telemetry.otlpEndpoint=http://collector:4317")
	require.Equal(t, "blue-", prod.Kafka.TopicPrefix)
	require.Equal(t, "blue-", prod.Kafka.GroupPrefix)
	require.Equal(t, "http://collector:4317", prod.OTLPEndpoint)
}
