package answers_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
)

// noon is when the first request of each test arrives.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func claimAt(t *testing.T, pool *pgxpool.Pool, at time.Time, k *idempotency.Key) (answer string, err error) {
	t.Helper()
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) { answer, err = answers.At(at).Claim(ctx, tx, k) })
	return answer, err
}

func TestAnswerIsKeptForADay(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	k, other := key(t, "u", "k", "body"), key(t, "u", "k", "another body")
	keepAt := func(at time.Time, k *idempotency.Key, answer string) {
		inTx(t, pool, func(ctx context.Context, tx pgx.Tx) { require.NoError(t, answers.At(at).Keep(ctx, tx, k, answer)) })
	}
	keepAt(noon, k, "first")
	end := noon.Add(24 * time.Hour)
	got, err := claimAt(t, pool, end.Add(-time.Microsecond), k)
	require.NoError(t, err)
	require.Equal(t, "first", got)
	got, err = claimAt(t, pool, end, k)
	require.NoError(t, err)
	require.Empty(t, got)

	keepAt(end, other, "second")
	got, err = claimAt(t, pool, end.Add(24*time.Hour-time.Microsecond), other)
	require.NoError(t, err)
	require.Equal(t, "second", got, "the day begins anew with another answer")
}

func TestRequestExpires(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	k := key(t, "u", "k")
	for _, begun := range []time.Time{noon, noon.Add(time.Hour)} { // the second replaces the first
		inTx(t, pool, func(ctx context.Context, tx pgx.Tx) {
			require.NoError(t, answers.At(begun).Start(ctx, tx, k, uuid.New(), time.Minute))
		})
		end := begun.Add(time.Minute)
		_, err := claimAt(t, pool, end.Add(-time.Microsecond), k)
		require.ErrorIs(t, err, idempotency.ErrInProgress)
		_, err = claimAt(t, pool, end, k)
		require.NoError(t, err)
	}
}

func TestPruneDeletesOldKeys(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	const old = 10_001 // more than two batches
	keys, kept := make([]*idempotency.Key, old), make([]string, old)
	for i := range keys {
		keys[i], kept[i] = key(t, "u", strconv.Itoa(i)), "answer"
	}
	young := key(t, "u", "young")
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) {
		require.NoError(t, answers.At(noon).KeepAll(ctx, tx, keys, kept))
		require.NoError(t, answers.At(noon.Add(time.Microsecond)).Keep(ctx, tx, young, "answer"))
	})
	require.NoError(t, answers.At(noon.Add(24*time.Hour)).Prune(t.Context(), pool))
	var left string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT string_agg(key, ' ') FROM idempotency_keys`).Scan(&left))
	require.Equal(t, "young", left)
}

func TestPruner(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) {
		require.NoError(t, answers.At(time.Now().Add(-25*time.Hour)).Keep(ctx, tx, key(t, "u", "old"), "answer"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- answers.PrunerEvery(pool, 10*time.Millisecond, slog.New(slog.DiscardHandler))(ctx) }()
	testkit.Until(t, func() bool {
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM idempotency_keys`).Scan(&left))
		return left == 0
	}, "the old key is deleted")
	cancel()
	require.NoError(t, <-done)
}
