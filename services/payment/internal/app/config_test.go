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
		"GRPC_ADDR": "127.0.0.1:8088", "RPC_PLAIN": "development", "DATABASE_URL": "postgres://urr@127.0.0.1/urr_payment", "KAFKA_BROKERS": "127.0.0.1:9092",
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
			"PAYMENT_PROVIDERS": "stripe", "PUBLIC_URL": "https://shop.test", "STRIPE_SECRET_KEY": "sk_live_1",
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
	env["PAYMENT_PROVIDERS"], env["STRIPE_SECRET_KEY"] = "stripe,sandbox", "sk_test_1"
	cfg, err = config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, []string{"stripe", "sandbox"}, cfg.Providers)
}

// What takes no money is allowed with SANDBOX=development only, and live keys are refused then.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sandbox, variable, value string
		fails                    bool
	}{
		{"", "STRIPE_SECRET_KEY", "sk_live_1", false},
		{"", "STRIPE_SECRET_KEY", "rk_live_1", false},
		{"", "STRIPE_SECRET_KEY", "sk_test_1", true},
		{"", "STRIPE_SECRET_KEY", "rk_test_1", true},
		{"", "STRIPE_SECRET_KEY", "secret-1", true},
		{"", "STRIPE_URL", "http://api.stripe.com", true},
		{"development", "STRIPE_SECRET_KEY", "sk_test_1", false},
		{"development", "STRIPE_SECRET_KEY", "rk_test_1", false},
		{"development", "STRIPE_SECRET_KEY", "sk_live_1", true},
		{"development", "STRIPE_SECRET_KEY", "rk_live_1", true},
		{"development", "STRIPE_URL", "http://127.0.0.1:8093", false},
		{"", "TOSS_SECRET_KEY", "live_sk_1", false},
		{"", "TOSS_SECRET_KEY", "live_gsk_1", false},
		{"", "TOSS_SECRET_KEY", "test_sk_1", true},
		{"", "TOSS_SECRET_KEY", "test_gsk_1", true},
		{"", "TOSS_URL", "http://127.0.0.1:8094", true},
		{"development", "TOSS_SECRET_KEY", "test_gsk_1", false},
		{"development", "TOSS_SECRET_KEY", "live_sk_1", true},
		{"development", "TOSS_URL", "http://127.0.0.1:8094", false},
	} {
		stripeKey, tossKey := "sk_live_1", "live_sk_1"
		if c.sandbox != "" {
			stripeKey, tossKey = "sk_test_1", "test_sk_1"
		}
		env := environment()
		maps.Copy(env, map[string]string{
			"PAYMENT_PROVIDERS": "stripe,toss", "PUBLIC_URL": "https://shop.test", "STRIPE_SECRET_KEY": stripeKey,
			"STRIPE_WEBHOOK_SECRET": strings.Repeat("x", 32), "TOSS_SECRET_KEY": tossKey, "TOSS_PAGE_URL": "https://pay.shop.test/toss",
			"SANDBOX": c.sandbox,
		})
		env[c.variable] = c.value
		_, err := config.LoadFrom[app.Config](t.Context(), env)
		if !c.fails {
			require.NoError(t, err, "%v", c)
			continue
		}
		require.ErrorContains(t, err, c.variable, "%v", c)
		if strings.HasSuffix(c.variable, "KEY") {
			require.NotContains(t, err.Error(), c.value, "secrets are not shown")
		}
	}
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
