package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/services/ticket/internal/app"
)

// The service can load the configuration that its Helm chart renders.
func TestChart(t *testing.T) {
	t.Parallel()
	dev := charttest.DevelopmentConfig[app.Config](t, "ticket")
	require.Equal(t, 300, dev.HoldSeconds)
	require.Equal(t, 30*time.Minute, dev.HoldMaxExtension)
	require.Equal(t, 8, dev.ReadMaxConns)
	require.Equal(t, "postgres://urr@postgres:5432/urr_ticket", dev.Postgres.URL.Reveal())
	require.Len(t, dev.RPC.Accept, 4)

	prod := charttest.ProductionConfig[app.Config](t, "ticket", "--set", "kafka.brokers={k1:9096,k2:9096}",
		"--set", "kafka.sasl=SCRAM-SHA-512", "--set", "kafka.username=urr", "--set", "kafka.passwordSecret=kafka",
		"--set", "postgres.maxConnections=40", "--set", "config.HOLD_CONCURRENCY=20", "--set", "config.DATABASE_READ_MAX_CONNS=30", "--set", "telemetry.logLevel=warn",
		"--set", "config.SMTP_ADDR=smtp.shop.test:465", "--set", "config.SMTP_TLS=implicit", "--set", "config.SMTP_USER=urr",
		"--set", "config.SMTP_FROM=tickets@shop.test", "--set", "config.PUBLIC_URL=https://shop.test", "--set", "secrets.SMTP_PASSWORD.name=smtp")
	require.Equal(t, 40, prod.Postgres.MaxConns)
	require.Equal(t, 20, prod.HoldConcurrency)
	require.Equal(t, 30, prod.ReadMaxConns)
	require.Equal(t, "smtp.shop.test:465", prod.SMTPAddr)
	require.Equal(t, "implicit", prod.SMTPTLS)
	require.NotEmpty(t, prod.SMTPPassword)
	require.Empty(t, dev.SMTPAddr)
	require.Equal(t, "urr", prod.Kafka.Username)
	require.NotEmpty(t, prod.Kafka.Password)
	require.Equal(t, "warn", prod.LogLevel)
}
