package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/queue/internal/app"
)

// The service's Config must load from the environment that the chart sets.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "queue", "--set", "queue.config.QUEUE_THRESHOLD=5000000")
	require.Equal(t, int64(5_000_000), dev.Threshold, "a large number stays a whole one")
	require.Equal(t, "dns:///urr-ticket-headless:9000", dev.Ticket.Addr)
	require.Equal(t, []string{"redis:6379"}, dev.Redis.Addrs)
	require.Len(t, dev.RPC.Accept, 3)

	prod := charttest.ProductionConfig[app.Config](t, "queue",
		"--set", "rpc.calls.ticket.address=dns:///ticket-headless.shop:9000", "--set", "redis.addresses={a:6379,b:6379}",
		"--set", "redis.passwordSecret=redis", "--set", "redis.tls=true", "--set", "kafka.brokers={k1:9098,k2:9098}",
		"--set", "kafka.sasl=AWS_MSK_IAM", "--set", "sqs.enabled=true", "--set", "sqs.queueURL=https://sqs.example/1/admissions.fifo")
	require.Equal(t, []string{"a:6379", "b:6379"}, prod.Redis.Addrs)
	require.NotEmpty(t, prod.Redis.Password)
	require.True(t, prod.Redis.TLS)
	require.Equal(t, "AWS_MSK_IAM", prod.Kafka.SASL)
	require.Equal(t, int16(3), prod.Kafka.ReplicationFactor)
	require.True(t, prod.SQS.Enabled)
}
