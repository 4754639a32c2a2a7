package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/worker/internal/app"
)

// The service's Config must load from the environment that the chart sets.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "worker", "--set", "global.requests.endpoint=http://elasticmq:9324")
	require.Equal(t, "http://dynamodb:8000", dev.Dynamo.Endpoint)
	require.Equal(t, "http://elasticmq:9324", dev.SQSEndpoint)
	require.Equal(t, []string{"http://sandbox:8080/beacon"}, dev.BeaconURLs)
	require.Equal(t, 5*time.Second, dev.DrawAfter)
	require.Empty(t, dev.Admissions)
	require.Contains(t, dev.RPC.Accept, "gateway")
	_, err := dev.Draw.Keys()
	require.NoError(t, err)

	prod := charttest.ProductionConfig[app.Config](t, "worker", "--set", "kafka.brokers={k1:9092},kafka.sasl=AWS_MSK_IAM", "--set", "requests.queue=shop-requests",
		"--set", "config.ADMISSIONS_QUEUE=admissions", "--set", "config.WORKER_RECEIVERS=8", "--set", "config.WORKER_RETRY_DELAY=3s")
	require.Equal(t, "shop-requests", prod.Queue.Name)
	require.Equal(t, "admissions", prod.Admissions)
	require.Empty(t, prod.SQSEndpoint)
	require.Len(t, prod.BeaconURLs, 2)
	require.Equal(t, 30*time.Second, prod.DrawAfter)
	require.Equal(t, 8, prod.Receivers)
	require.Equal(t, 3*time.Second, prod.RetryDelay)
}
