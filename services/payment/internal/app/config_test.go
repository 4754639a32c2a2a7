package app_test

import (
	"maps"
	"strings"
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
	require.Equal(t, []string{"sandbox"}, cfg.Providers)
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

// The settings of a provider are required when it is in PAYMENT_PROVIDERS.
func TestSettingsOfProviders(t *testing.T) {
	t.Parallel()
	stripe := func() map[string]string {
		env := environment()
		for _, name := range []string{"SANDBOX", "SANDBOX_URL", "SANDBOX_WEBHOOK_SECRET"} {
			delete(env, name)
		}
		maps.Copy(env, map[string]string{
			"PAYMENT_PROVIDERS": "stripe", "PUBLIC_URL": "https://shop.test", "STRIPE_SECRET_KEY": "sk_test_1",
			"STRIPE_WEBHOOK_SECRET": "whsec_" + strings.Repeat("x", 32),
		})
		return env
	}
	cfg, err := config.LoadFrom[app.Config](t.Context(), stripe())
	require.NoError(t, err)
	require.Equal(t, 12*time.Minute, cfg.StripePageTime)
	for name, value := range map[string]string{
		"PUBLIC_URL": "", "STRIPE_SECRET_KEY": "", "STRIPE_WEBHOOK_SECRET": "whsec_short", "STRIPE_URL": "api.stripe.com", "STRIPE_PAGE_TIME": "31m",
		"PAYMENT_PROVIDERS": "stripe,stripe",
	} {
		env := stripe()
		if env[name] = value; value == "" {
			delete(env, name)
		}
		_, err := config.LoadFrom[app.Config](t.Context(), env)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "whsec_", "secrets are not shown")
	}
	env := stripe()
	env["PAYMENT_PROVIDERS"] = "stripe,sandbox"
	_, err = config.LoadFrom[app.Config](t.Context(), env)
	require.ErrorContains(t, err, "SANDBOX")
	maps.Copy(env, environment())
	env["PAYMENT_PROVIDERS"] = "stripe,sandbox"
	cfg, err = config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, []string{"stripe", "sandbox"}, cfg.Providers)
}

func TestSettingsOfToss(t *testing.T) {
	t.Parallel()
	environment := func() map[string]string {
		env := environment()
		maps.Copy(env, map[string]string{
			"PAYMENT_PROVIDERS": "toss", "TOSS_SECRET_KEY": "test_sk_1", "TOSS_PAGE_URL": "https://pay.shop.test/toss",
		})
		return env
	}
	cfg, err := config.LoadFrom[app.Config](t.Context(), environment())
	require.NoError(t, err)
	require.Equal(t, 12*time.Minute, cfg.TossPageTime)
	for name, values := range map[string][]string{
		"TOSS_SECRET_KEY": {""}, "TOSS_PAGE_URL": {"", "pay.shop.test/toss", "https://pay.shop.test/toss?a=1"}, "TOSS_URL": {"api.tosspayments.com"},
		"TOSS_PAGE_TIME": {"26m", "9s"},
	} {
		for _, value := range values {
			env := environment()
			if env[name] = value; value == "" {
				delete(env, name)
			}
			_, err := config.LoadFrom[app.Config](t.Context(), env)
			require.ErrorContains(t, err, name, value)
			require.NotContains(t, err.Error(), "test_sk", "secrets are not shown")
		}
	}
}
