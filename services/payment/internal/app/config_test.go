package app_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/services/payment/internal/app"
)

func environment() map[string]string {
	return map[string]string{
		"GRPC_ADDR": "127.0.0.1:8088", "DATABASE_URL": "postgres://urr@127.0.0.1/urr_payment", "KAFKA_BROKERS": "127.0.0.1:9092",
		"RPC_ACCEPT":  "gateway:gateway-payment-key-of-32-bytes!!",
		"TICKET_ADDR": "127.0.0.1:8086", "TICKET_RPC_KEY": "payment-ticket-key-of-thirty-two-b",
		"SANDBOX": "development", "SANDBOX_URL": "http://127.0.0.1:8092", "SANDBOX_WEBHOOK_SECRET": "sandbox-secret-of-thirty-two-bytes",
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	cfg, err := config.LoadFrom[app.Config](t.Context(), environment())
	require.NoError(t, err)
	require.Equal(t, "sandbox", cfg.Providers)
	require.Equal(t, 8*time.Second, cfg.ProviderTimeout)
	require.Equal(t, 20*time.Second, cfg.VoidAfter)
	require.Equal(t, 256, cfg.ChargesAtOnce)

	for name, value := range map[string]string{
		"DATABASE_URL": "", "KAFKA_BROKERS": "", "PAYMENT_PROVIDERS": "paypal", "PAYMENT_PROVIDER_TIMEOUT": "1h", "PAYMENT_VOID_AFTER": "0s",
		"SANDBOX_URL": "127.0.0.1:8092", "SANDBOX_WEBHOOK_SECRET": "short", "KAFKA_REPLICATION_FACTOR": "0",
		"PAYMENT_CHARGES_AT_ONCE": "0", "SANDBOX": "", "SANDBOX_PUBLIC_URL": "127.0.0.1:8092", "SANDBOX_PAGE_TIME": "9s",
		"PUBLIC_URL": "tickets.example",
	} {
		env := environment()
		if name == "PUBLIC_URL" {
			env["SANDBOX_PUBLIC_URL"] = "http://127.0.0.1:8092"
		}
		maps.Copy(env, map[string]string{name: value})
		if value == "" {
			delete(env, name)
		}
		_, err := config.LoadFrom[app.Config](t.Context(), env)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "short", "secrets are not shown")
	}
}
