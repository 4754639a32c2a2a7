package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
)

// Due payments of the other mode than the keys are counted, and no worker that calls the provider
// gets them.
func TestPaymentsOfOtherModeAreMeasured(t *testing.T) { //nolint:paralleltest // metrics are of the process
	pool, clock, s := setup(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, expires_at, check_at, provider_ref, mode)
		SELECT gen_random_uuid(), mode || n, 'reservation', gen_random_uuid(), 'u', 'e', 1, 'KRW', 'stripe', 'OPEN', now(), $1, 'cs_1', mode
		FROM generate_series(1, 2) AS n, unnest(ARRAY['test', 'live']) AS mode`, clock.Now().Add(-time.Hour))
	require.NoError(t, err)
	live := postgres.NewStore(pool, postgres.Options{Now: clock.Now, Mode: payment.LiveMode})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- live.Measure(slog.New(slog.DiscardHandler))(ctx) }()
	testkit.Until(t, func() bool {
		sum, _ := metricstest.MetricSum(t, "urr_payments_of_other_mode", nil)
		return sum == 2
	}, "measured")
	cancel()
	require.NoError(t, <-done)
	due, _, err := live.ClaimDue(t.Context(), payment.Looks, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, due, 2)
	require.Equal(t, payment.LiveMode, due[0].Mode)
	due, _, err = s.ClaimDue(t.Context(), payment.Looks, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, due, 2, "without a mode: the others")
}
