package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/payment/internal/app"
)

// The service must be able to read every setting of the chart.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "payment")
	require.Equal(t, "http://sandbox:8080", dev.SandboxURL)
	require.Empty(t, dev.SandboxPublicURL, "browsers do not reach it")
	require.Equal(t, "postgres://urr@postgres:5432/urr_payment", dev.Postgres.URL.Reveal())
	require.Equal(t, "dns:///urr-ticket-headless:9000", dev.Ticket.Addr)
	require.Contains(t, dev.RPC.Accept, "gateway")

	prod := charttest.ProductionConfig[app.Config](t, "payment", "--set", "rpc.calls.ticket.address=ticket.shop:9000",
		"--set", "kafka.brokers={k1:9092},kafka.sasl=AWS_MSK_IAM", "--set", "config.PAYMENT_VOID_AFTER=1m", "--set", "config.PAYMENT_CHARGES_AT_ONCE=50",
		"--set", "config.SANDBOX=development", "--set", "config.SANDBOX_PUBLIC_URL=https://pay.test", "--set", "config.PUBLIC_URL=https://shop.test",
		"--set", "config.SANDBOX_PAGE_TIME=3m", "--set", "config.PAYMENT_PROVIDERS={stripe,sandbox,toss}",
		"--set", "secrets.STRIPE_SECRET_KEY.name=stripe", "--set", "secrets.STRIPE_WEBHOOK_SECRET.name=stripe", "--set", "config.STRIPE_PAGE_TIME=4m",
		"--set", "secrets.TOSS_SECRET_KEY.name=toss", "--set", "config.TOSS_PAGE_URL=https://pay.shop.test/toss", "--set", "config.TOSS_PAGE_TIME=5m")
	require.Greater(t, prod.ShutdownTimeout/2, 20*time.Second, "the share of calls in progress; the gateway waits 20 s for a confirmation")
	require.Equal(t, "ticket.shop:9000", prod.Ticket.Addr)
	require.Equal(t, time.Minute, prod.VoidAfter)
	require.Equal(t, 50, prod.ChargesAtOnce)
	require.Equal(t, "https://pay.test", prod.SandboxPublicURL)
	require.Equal(t, "https://shop.test", prod.PublicURL)
	require.Equal(t, 3*time.Minute, prod.SandboxPageTime)
	require.Equal(t, []string{"stripe", "sandbox", "toss"}, prod.Providers)
	require.Equal(t, "https://api.stripe.com", prod.StripeURL)
	require.Equal(t, 4*time.Minute, prod.StripePageTime)
	require.Equal(t, "https://api.tosspayments.com", prod.TossURL)
	require.Equal(t, "https://pay.shop.test/toss", prod.TossPageURL)
	require.Equal(t, 5*time.Minute, prod.TossPageTime)
}
