package answers_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

func key(t *testing.T, user, key string, parts ...string) *idempotency.Key {
	t.Helper()
	k, err := idempotency.Require(user, "route", key, parts...)
	require.NoError(t, err)
	return k
}

// inTx runs fn in a transaction that commits.
func inTx(t *testing.T, pool *pgxpool.Pool, fn func(ctx context.Context, tx pgx.Tx)) {
	t.Helper()
	require.NoError(t, postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		fn(ctx, tx)
		return nil
	}))
}

// claim runs a request that ends right after Claim.
func claim(t *testing.T, pool *pgxpool.Pool, k *idempotency.Key) (answer string, err error) {
	t.Helper()
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) { answer, err = answers.Claim(ctx, tx, k) })
	return answer, err
}

// keep runs a request that needs one transaction, and stores its answer.
func keep(t *testing.T, pool *pgxpool.Pool, k *idempotency.Key, answer string) {
	t.Helper()
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) {
		before, err := answers.Claim(ctx, tx, k)
		require.NoError(t, err)
		require.Empty(t, before)
		require.NoError(t, answers.Keep(ctx, tx, k, answer))
	})
}

// start runs the first transaction of a request of several transactions.
func start(t *testing.T, pool *pgxpool.Pool, k *idempotency.Key, subject uuid.UUID, within time.Duration) {
	t.Helper()
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) {
		before, err := answers.Claim(ctx, tx, k)
		require.NoError(t, err)
		require.Empty(t, before)
		require.NoError(t, answers.Start(ctx, tx, k, subject, within))
	})
}

func finish(t *testing.T, pool *pgxpool.Pool, subject uuid.UUID, answer string) {
	t.Helper()
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) { require.NoError(t, answers.Finish(ctx, tx, subject, answer)) })
}

func requireAnswer(t *testing.T, pool *pgxpool.Pool, k *idempotency.Key, want string) {
	t.Helper()
	got, err := claim(t, pool, k)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestFirstAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	keep(t, pool, key(t, "u", "k", "body"), "first")
	requireAnswer(t, pool, key(t, "u", "k", "body"), "first")
	_, err := claim(t, pool, key(t, "u", "k", "another body"))
	require.ErrorIs(t, err, idempotency.ErrReused)
	requireAnswer(t, pool, key(t, "v", "k", "body"), "")
	requireAnswer(t, pool, nil, "")
}

func TestFailedRequestMayBeRepeated(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	k := key(t, "u", "k")
	err := postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		require.NoError(t, answers.Keep(ctx, tx, k, "answer"))
		return context.Canceled
	})
	require.ErrorIs(t, err, context.Canceled)
	requireAnswer(t, pool, k, "")
}

func TestWhoeverComesMeanwhileDoesNotWait(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	k := key(t, "u", "k", "body")
	inTx(t, pool, func(ctx context.Context, tx pgx.Tx) {
		_, err := answers.Claim(ctx, tx, k)
		require.NoError(t, err)
		_, err = claim(t, pool, k)
		require.ErrorIs(t, err, idempotency.ErrInProgress)
		require.NoError(t, answers.Keep(ctx, tx, k, "answer"))
		_, err = claim(t, pool, key(t, "u", "k", "another body"))
		require.ErrorIs(t, err, idempotency.ErrInProgress, "nothing is known of it yet")
	})
	requireAnswer(t, pool, k, "answer")
}

func TestClaimAllAnswersEachByItself(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	keep(t, pool, key(t, "u", "answered", "body"), "before")
	inTx(t, pool, func(ctx context.Context, other pgx.Tx) {
		_, err := answers.Claim(ctx, other, key(t, "u", "running"))
		require.NoError(t, err)
		inTx(t, pool, func(ctx context.Context, tx pgx.Tx) {
			wanted := []*idempotency.Key{
				nil, key(t, "u", "answered", "body"), key(t, "u", "running"), key(t, "u", "new"), key(t, "u", "answered"), key(t, "v", "new"),
			}
			states, err := answers.ClaimAll(ctx, tx, wanted)
			require.NoError(t, err)
			require.Equal(t, []answers.KeyState{
				{}, {Answer: "before"}, {Err: idempotency.ErrInProgress}, {}, {Err: idempotency.ErrInProgress}, {},
			}, states)
			require.NoError(t, answers.KeepAll(ctx, tx, []*idempotency.Key{nil, wanted[3], wanted[5]}, []string{"none", "3", "5"}))
		})
	})
	requireAnswer(t, pool, key(t, "u", "new"), "3")
	requireAnswer(t, pool, key(t, "v", "new"), "5")
	_, err := claim(t, pool, key(t, "u", "answered"))
	require.ErrorIs(t, err, idempotency.ErrReused)
}

func TestRequestOfSeveralTransactions(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	k, subject := key(t, "u", "k", "body"), uuid.New()
	start(t, pool, k, subject, time.Minute)
	_, err := claim(t, pool, k)
	require.ErrorIs(t, err, idempotency.ErrInProgress)
	_, err = claim(t, pool, key(t, "u", "k", "another body"))
	require.ErrorIs(t, err, idempotency.ErrReused)

	finish(t, pool, subject, "")
	start(t, pool, k, subject, time.Minute)
	finish(t, pool, uuid.New(), "of something else")
	finish(t, pool, subject, "answer")
	finish(t, pool, subject, "a later one")
	finish(t, pool, subject, "")
	requireAnswer(t, pool, k, "answer")
}

func TestRequestWhoseProcessDied(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, answers.Migrations)
	k, subject := key(t, "u", "k", "body"), uuid.New()
	start(t, pool, k, subject, 0)
	_, err := claim(t, pool, key(t, "u", "k", "another body"))
	require.ErrorIs(t, err, idempotency.ErrReused)
	requireAnswer(t, pool, k, "")
	keep(t, pool, k, "of the one that came after it")
	finish(t, pool, subject, "of whoever cleaned up")
	requireAnswer(t, pool, k, "of the one that came after it")

	died := key(t, "u", "died")
	start(t, pool, died, subject, 0)
	start(t, pool, died, subject, time.Minute)
	_, err = claim(t, pool, died)
	require.ErrorIs(t, err, idempotency.ErrInProgress, "it runs again")
	finish(t, pool, subject, "in the end")
	requireAnswer(t, pool, died, "in the end")
}

// After a quiet night the table is empty. A plan cached then must not scan all keys of the first
// minute of a sale.
func TestFindUsesAnIndex(t *testing.T) {
	t.Parallel()
	postgrestest.RequireIndexes(t, []postgres.MigrationSet{answers.Migrations}, map[string]string{"find": answers.Find})
}
