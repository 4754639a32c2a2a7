package postgres_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
)

const day = 24 * time.Hour

// The age of accepted refunds counts from when the provider has accepted them. Of disputes count those
// of which the deadline is near or over, of warnings those of a day about money that the shop has.
func TestAgesAreMeasured(t *testing.T) { //nolint:paralleltest // metrics are of the process
	pool, clock, _ := setup(t)
	now := clock.Now()
	at := func(after time.Duration) *time.Time { return new(now.Add(after)) }
	pay := func(status string, disputed, due, warned *time.Time) (id uuid.UUID) {
		t.Helper()
		id = uuid.New()
		_, err := pool.Exec(t.Context(), `
			INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, captured, refunded, currency, provider, status, expires_at,
				disputed_at, evidence_due_at, warned_at)
			VALUES ($1, $2, 'reservation', $1, 'ann', 'demo', 9, 9, 3, 'KRW', 'stripe', $3, $4, $5, $6, $7)
		`, id, id.String(), status, now, disputed, due, warned)
		require.NoError(t, err)
		return id
	}
	pay("CONFIRMED", at(0), at(3*day-time.Second), at(-time.Hour))
	pay("CONFIRMED", at(0), at(-day), nil)
	pay("CONFIRMED", at(0), at(3*day), nil)
	pay("CONFIRMED", at(0), nil, nil)
	pay("REFUNDED", nil, nil, at(-time.Hour))
	pay("CONFIRMED", nil, nil, at(-day))
	id := pay("CONFIRMED", nil, nil, at(time.Second-day))
	for request, given := range map[string]time.Duration{"a": 4 * day, "b": time.Hour} {
		_, err := pool.Exec(t.Context(), `
			INSERT INTO refunds (id, payment_id, cause, request, reason, amount, send, status, provider, provider_id, given_at, due_at, send_at, created_at)
			VALUES (gen_random_uuid(), $1, 'USER', $2, '', 1, 1, 'ACCEPTED', 'stripe', $2, $3, $4, $4, $4)
		`, id, request, now.Add(-given), now.Add(-5*day))
		require.NoError(t, err)
	}
	measured := postgres.NewStore(pool, postgres.Options{Now: clock.Now, Providers: []string{"stripe", payment.NoProvider}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- measured.Measure(slog.New(slog.DiscardHandler))(ctx) }()
	testkit.Until(t, func() bool {
		return metricstest.ByLabel(t, "urr_refunds_accepted_oldest_seconds", "cause")["USER"] == (4 * day).Seconds()
	}, "measured")
	cancel()
	require.NoError(t, <-done)
	require.Zero(t, metricstest.ByLabel(t, "urr_refunds_pending_oldest_seconds", "cause")["USER"])
	for metric, want := range map[string]float64{"urr_payments_disputed": 4, "urr_payments_evidence_due": 2, "urr_payments_fraud_warned": 1} {
		got, ok := metricstest.MetricSum(t, metric, nil)
		require.True(t, ok)
		require.InDelta(t, want, got, 0, metric)
	}
}
