package app_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/services/reward/internal/app"
)

func environment() map[string]string {
	return map[string]string{
		"GRPC_ADDR": "127.0.0.1:8094", "RPC_PLAIN": "development", "DATABASE_URL": "postgres://urr@127.0.0.1/urr_reward", "KAFKA_BROKERS": "127.0.0.1:9092",
		"RPC_ACCEPT":       "gateway:gateway-reward-key-of-32-bytes!!!",
		"REWARD_POINT_URL": "https://points.example/api", "REWARD_COUPON_URL": "http://127.0.0.1:8092/rewards",
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	cfg, err := config.LoadFrom[app.Config](t.Context(), environment())
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, cfg.CallTimeout)
	require.Equal(t, 30*time.Second, cfg.Lease)
	require.Equal(t, 15*time.Minute, cfg.SettleTime)
	require.Empty(t, cfg.PointToken.Reveal())
}

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  map[string]string
		want string
	}{
		"no database":                      {map[string]string{"DATABASE_URL": ""}, "DATABASE_URL"},
		"ingest without a key":             {map[string]string{"INGEST_ADDR": "i:1"}, "INGEST_RPC_KEY"},
		"no provider":                      {map[string]string{"REWARD_POINT_URL": ""}, "REWARD_POINT_URL"},
		"a provider without a scheme":      {map[string]string{"REWARD_COUPON_URL": "127.0.0.1:8092"}, "REWARD_COUPON_URL=\"127.0.0.1:8092\": must be the provider's URL"},
		"another scheme":                   {map[string]string{"REWARD_POINT_URL": "ftp://points"}, "REWARD_POINT_URL"},
		"a token with a line end":          {map[string]string{"REWARD_POINT_TOKEN": "hidden\ntoken"}, "REWARD_POINT_TOKEN=\"***\": must be printable ASCII"},
		"a token outside ASCII":            {map[string]string{"REWARD_COUPON_TOKEN": "hidden-열쇠"}, "REWARD_COUPON_TOKEN"},
		"a short lease":                    {map[string]string{"REWARD_LEASE": "19s"}, "must be at least 10s longer than REWARD_CALL_TIMEOUT (10s)"},
		"a short lease of short calls":     {map[string]string{"REWARD_CALL_TIMEOUT": "2s", "REWARD_LEASE": "3s"}, "must be at least 2s longer than REWARD_CALL_TIMEOUT (2s)"},
		"a maximum below the minimum":      {map[string]string{"REWARD_RETRY_MIN": "1h", "REWARD_RETRY_MAX": "30m"}, "must not be below REWARD_RETRY_MIN (1h0m0s)"},
		"a settle time below a call":       {map[string]string{"REWARD_SETTLE_TIME": "5s"}, "must not be below REWARD_CALL_TIMEOUT (10s)"},
		"keys forgotten while calls run":   {map[string]string{"REWARD_KEY_RETENTION": "15m10s"}, "REWARD_CALL_TIMEOUT and REWARD_SETTLE_TIME together (15m10s)"},
		"look-ups shorter than keys":       {map[string]string{"REWARD_LOOKUP_RETENTION": "23h"}, "must not be below REWARD_KEY_RETENTION (24h0m0s)"},
		"look-ups shorter than the pauses": {map[string]string{"REWARD_RETRY_MAX": "48h", "REWARD_LOOKUP_RETENTION": "48h"}, "must be longer than REWARD_RETRY_MAX (48h0m0s)"},
		"held within the pauses":           {map[string]string{"REWARD_HOLD_AFTER": "6h"}, "must be longer than REWARD_RETRY_MAX (6h0m0s)"},
		"no attempts":                      {map[string]string{"REWARD_MAX_ATTEMPTS": "0"}, "REWARD_MAX_ATTEMPTS"},
		"no slots":                         {map[string]string{"REWARD_SLOTS": "0"}, "REWARD_SLOTS"},
		"a negative rate":                  {map[string]string{"REWARD_RATE": "-1"}, "REWARD_RATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := environment()
			maps.Copy(env, c.set)
			_, err := config.LoadFrom[app.Config](t.Context(), env)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hidden", "secrets are not shown")
		})
	}
}

// The configuration is valid with the shortest times that are allowed.
func TestConfigAtItsBounds(t *testing.T) {
	t.Parallel()
	env := environment()
	maps.Copy(env, map[string]string{
		"REWARD_CALL_TIMEOUT": "300ms", "REWARD_LEASE": "600ms", "REWARD_SETTLE_TIME": "300ms", "REWARD_KEY_RETENTION": "1s", "REWARD_LOOKUP_RETENTION": "1s",
		"REWARD_RETRY_MIN": "10ms", "REWARD_RETRY_MAX": "500ms", "REWARD_POINT_TOKEN": "a-token",
	})
	cfg, err := config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, "a-token", cfg.PointToken.Reveal())
}
