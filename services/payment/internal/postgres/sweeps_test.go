package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
)

func setup(t *testing.T) (*pgxpool.Pool, *postgres.Store) {
	t.Helper()
	pool := postgrestest.New(t, postgres.Migrations...)
	return pool, postgres.NewStore(pool)
}

// A webhook may make a payment due while the sweeper, which looked before, is about to forget it.
func TestAHurriedPaymentIsNotForgotten(t *testing.T) {
	t.Parallel()
	pool, s := setup(t)
	p, err := s.Open(t.Context(), payment.Payment{
		ID: uuid.New(), OrderID: uuid.NewString(), Reference: payment.Reference{Type: payment.Reservation, ID: uuid.New()},
		UserID: "ann", EventID: "e", Amount: 1000, Currency: "KRW", Provider: "sandbox", ExpiresAt: time.Now().Add(time.Minute),
	}, &idempotency.Key{UserID: "ann", Route: "prepare", Key: "k"})
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE payments SET status = 'DECLINED', abort_due = true, check_at = now()`)
	require.NoError(t, err)
	claim := func() []payment.Payment {
		due, _, err := s.ClaimDue(t.Context(), 10, time.Minute)
		require.NoError(t, err)
		return due
	}
	due := claim()
	require.Len(t, due, 1)
	require.Empty(t, claim(), "it is claimed")

	require.NoError(t, s.Hurry(t.Context(), p.ID))
	require.NoError(t, s.Reschedule(t.Context(), due[0], payment.Never))
	again := claim()
	require.Len(t, again, 1)

	require.NoError(t, s.Reschedule(t.Context(), again[0], payment.Never))
	require.NoError(t, s.Reschedule(t.Context(), again[0], 0), "what is forgotten stays so")
	require.Empty(t, claim())
}
