package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/vwr/internal/app"
)

// The service's Config must load from the environment that the chart sets.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "vwr")
	require.Equal(t, "http://dynamodb:8000", dev.Dynamo.Endpoint)
	require.Equal(t, "dns:///urr-queue-headless:9000", dev.Queue.Addr)
	require.Equal(t, "dns:///urr-ingest-headless:9000", dev.Ingest.Addr)
	require.Equal(t, "dns:///urr-reward-headless:9000", dev.Reward.Addr)
	require.Contains(t, dev.RPC.Accept, "gateway")
	require.NotEmpty(t, dev.DrawSecret)
	require.Equal(t, []string{"http://sandbox:8080/beacon"}, dev.BeaconURLs)
	require.Equal(t, 80*time.Second, dev.LobbyLead)

	prod := charttest.ProductionConfig[app.Config](t, "vwr", "--set", "rpc.calls.queue.address=none", "--set", "rpc.calls.ingest.address=none",
		"--set", "rpc.calls.reward.address=none", "--set", "aws.region=eu-west-1")
	require.Empty(t, prod.Queue.Addr)
	require.Equal(t, 3*time.Minute, prod.LobbyLead)
	require.Len(t, prod.BeaconURLs, 2)
	require.Empty(t, prod.Dynamo.Endpoint)
	require.Equal(t, "eu-west-1", prod.Dynamo.Region)
	require.True(t, prod.Dynamo.PITR)
	require.Equal(t, 10*time.Second, prod.Drain)
}
