package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
)

func setup(t *testing.T) (*pgxpool.Pool, *testkit.Clock, *postgres.Store) {
	t.Helper()
	pool := postgrestest.New(t, postgres.Migrations...)
	clock := testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	return pool, clock, postgres.NewStore(pool, postgres.Options{Now: clock.Now})
}

func open(t *testing.T, s *postgres.Store, expiresAt time.Time) payment.Payment {
	t.Helper()
	p, err := s.Open(t.Context(), payment.Payment{
		ID: uuid.New(), OrderID: uuid.NewString(), Reference: payment.Reference{Type: payment.Reservation, ID: uuid.New()},
		UserID: "ann", EventID: "e", Amount: 1000, Currency: "KRW", Provider: "sandbox", ExpiresAt: expiresAt,
	}, &idempotency.Key{UserID: "ann", Route: "prepare", Key: "k"})
	require.NoError(t, err)
	return p
}

func claim(t *testing.T, s *postgres.Store) []payment.Payment {
	t.Helper()
	var due []payment.Payment
	for _, lane := range []payment.Lane{payment.Expiries, payment.Releases, payment.Charges} {
		claimed, _, err := s.ClaimDue(t.Context(), lane, 10, time.Minute)
		require.NoError(t, err)
		due = append(due, claimed...)
	}
	return due
}

func TestClaimEndsWithItsLease(t *testing.T) {
	t.Parallel()
	_, clock, s := setup(t)
	open(t, s, clock.Now().Add(time.Hour))
	clock.Advance(time.Hour - time.Microsecond)
	require.Empty(t, claim(t, s), "it is not due yet")
	clock.Advance(time.Microsecond)
	first := claim(t, s)
	require.Len(t, first, 1)
	clock.Advance(time.Minute - time.Microsecond)
	require.Empty(t, claim(t, s), "it is claimed")
	clock.Advance(time.Microsecond)
	second := claim(t, s)
	require.Len(t, second, 1)

	require.NoError(t, s.Reschedule(t.Context(), first[0], 0), "whoever lost the lease changes nothing")
	require.Empty(t, claim(t, s))
	require.NoError(t, s.Reschedule(t.Context(), second[0], time.Second))
	clock.Advance(time.Second)
	require.Len(t, claim(t, s), 1)
}

// In production the database's clock is used.
func TestDatabaseClockIsUsed(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, postgres.Migrations...)
	s := postgres.NewStore(pool, postgres.Options{})
	var now time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT now()`).Scan(&now))
	open(t, s, now.Add(24*time.Hour))
	require.Empty(t, claim(t, s))
	_, err := pool.Exec(t.Context(), `UPDATE payments SET check_at = now()`)
	require.NoError(t, err)
	due, at, err := s.ClaimDue(t.Context(), payment.Expiries, 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, due, 1)
	require.False(t, due[0].CreatedAt.Before(now))
	require.False(t, at.Before(due[0].CreatedAt))
}

func TestLanesClaimTheirOwnPayments(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	want := map[uuid.UUID]payment.Lane{}
	for status, lane := range map[string]payment.Lane{
		"PREPARED": payment.Expiries, "DECLINED, releasing": payment.Releases, "EXPIRED, releasing": payment.Releases,
		"CONFIRMING": payment.Charges, "UNKNOWN": payment.Charges, "DECLINED": payment.Charges,
	} {
		p, err := s.Open(t.Context(), payment.Payment{
			ID: uuid.New(), OrderID: uuid.NewString(), Reference: payment.Reference{Type: payment.Reservation, ID: uuid.New()},
			UserID: "ann", EventID: "e", Amount: 1000, Currency: "KRW", Provider: "sandbox", ExpiresAt: clock.Now().Add(time.Hour),
		}, &idempotency.Key{UserID: "ann", Route: "prepare", Key: status})
		require.NoError(t, err)
		name, releasing, _ := strings.Cut(status, ", ")
		_, err = pool.Exec(t.Context(), `UPDATE payments SET status = $2, abort_due = $3, check_at = $4 WHERE id = $1`,
			p.ID, name, releasing != "", clock.Now())
		require.NoError(t, err)
		want[p.ID] = lane
	}
	got := map[uuid.UUID]payment.Lane{}
	for _, lane := range []payment.Lane{payment.Expiries, payment.Releases, payment.Charges} {
		due, _, err := s.ClaimDue(t.Context(), lane, 10, time.Minute)
		require.NoError(t, err)
		for _, p := range due {
			got[p.ID] = lane
		}
		if lane == payment.Releases {
			require.NoError(t, s.Released(t.Context(), due[0]))
			want[due[0].ID] = payment.Charges
		}
	}
	require.Empty(t, cmp.Diff(want, got))
}

// A webhook may make a payment due while a sweeper that checked it before is settling it.
func TestMakeDueDuringSettlement(t *testing.T) {
	t.Parallel()
	pool, clock, s := setup(t)
	p := open(t, s, clock.Now().Add(time.Minute))
	_, err := pool.Exec(t.Context(), `UPDATE payments SET status = 'DECLINED', abort_due = true, check_at = $1`, clock.Now())
	require.NoError(t, err)
	due := claim(t, s)
	require.Len(t, due, 1)
	require.Empty(t, claim(t, s), "it is claimed")

	require.NoError(t, s.MakeDue(t.Context(), p.ID))
	require.NoError(t, s.Reschedule(t.Context(), due[0], payment.Never))
	again := claim(t, s)
	require.Len(t, again, 1)

	require.NoError(t, s.Reschedule(t.Context(), again[0], payment.Never))
	require.NoError(t, s.Reschedule(t.Context(), again[0], 0), "what is forgotten stays so")
	require.Empty(t, claim(t, s))
}
