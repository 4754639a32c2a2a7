package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/ingest/internal/app"
)

// The service's Config must load from the environment that the chart sets.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "ingest", "--set", "global.requests.endpoint=http://elasticmq:9324")
	require.Equal(t, "http://dynamodb:8000", dev.Dynamo.Endpoint)
	require.Equal(t, "http://elasticmq:9324", dev.SQSEndpoint)
	require.Equal(t, "urr-requests", dev.Queue.Name)
	require.Equal(t, 5*time.Second, dev.DrawLead)
	require.Contains(t, dev.RPC.Accept, "gateway")
	keys, err := dev.Draw.Keys()
	require.NoError(t, err)
	require.NotEmpty(t, keys.Current())
	require.Equal(t, "dns:///urr-worker-headless:9000", dev.Worker.Addr)

	prod := charttest.ProductionConfig[app.Config](t, "ingest", "--set", "aws.region=eu-west-1", "--set", "requests.queue=shop-requests",
		"--set", "config.REQUESTS_VISIBILITY=1m", "--set", "config.INGEST_SEND_AFTER=20s", "--set", "config.INGEST_FAIL_AFTER=30m")
	require.Equal(t, "shop-requests", prod.Queue.Name)
	require.Empty(t, prod.SQSEndpoint)
	require.Equal(t, "eu-west-1", prod.Dynamo.Region)
	require.True(t, prod.Dynamo.PITR)
	require.Equal(t, time.Minute, prod.Visibility)
	require.Equal(t, 20*time.Second, prod.SendAfter)
	require.Equal(t, 30*time.Minute, prod.FailAfter)
	require.Equal(t, 2*time.Minute, prod.DrawMinDelay)
}
