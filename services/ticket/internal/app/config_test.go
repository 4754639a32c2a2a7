package app_test

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/services/ticket/internal/app"
)

var codeSeed = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))

func environment() map[string]string {
	return map[string]string{
		"GRPC_ADDR": "127.0.0.1:8086", "RPC_PLAIN": "development", "DATABASE_URL": "postgres://urr@127.0.0.1/urr_ticket", "KAFKA_BROKERS": "127.0.0.1:9092",
		"RPC_ACCEPT":      "gateway:" + string(gatewayKey) + ",queue:" + string(queueKey) + ",payment:" + string(paymentKey) + ",stats:" + string(statsKey),
		"TICKET_CODE_KEY": "1:" + codeSeed,
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	cfg, err := config.LoadFrom[app.Config](t.Context(), environment())
	require.NoError(t, err)
	require.Equal(t, 300, cfg.HoldSeconds)
	require.Equal(t, 30*time.Minute, cfg.HoldMaxExtension)
	require.Equal(t, time.Second, cfg.SweepInterval)
	require.Equal(t, 8, cfg.ReadMaxConns)
	require.Equal(t, 12, cfg.HoldConcurrency, "three quarters of the connections")

	for name, value := range map[string]string{
		"DATABASE_URL": "", "KAFKA_BROKERS": "", "TICKET_CODE_KEY": "1:" + codeSeed[:20], "HOLD_SECONDS": "4", "SWEEP_INTERVAL": "1",
		"HOLD_MAX_EXTENSION": "9m59s",
		"HOLD_CONCURRENCY":   "16", "DATABASE_READ_MAX_CONNS": "4", "DATABASE_MAX_CONNS": "0", "KAFKA_REPLICATION_FACTOR": "0",
	} {
		env := environment()
		maps.Copy(env, map[string]string{name: value})
		if value == "" {
			delete(env, name)
		}
		_, err := config.LoadFrom[app.Config](t.Context(), env)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), codeSeed[:20], "secrets are not shown")
	}
	env := environment()
	delete(env, "TICKET_CODE_KEY")
	_, err = config.LoadFrom[app.Config](t.Context(), env)
	require.ErrorContains(t, err, "TICKET_CODE_KEY")
}
