package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

func TestDeferredStatementsAreSentTogether(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE numbers (n int PRIMARY KEY)`)
	require.NoError(t, err)
	count := func(tx pgx.Tx) (n int) {
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM numbers`).Scan(&n))
		return n
	}
	require.NoError(t, postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		d := postgres.Defer(tx)
		for n := range 3 {
			_, err := d.Exec(ctx, `INSERT INTO numbers VALUES ($1)`, n)
			require.NoError(t, err)
		}
		require.Zero(t, count(tx), "nothing is sent yet")
		require.NoError(t, d.Send(ctx))
		require.Equal(t, 3, count(tx))
		require.NoError(t, d.Send(ctx), "each statement is sent once")
		require.Equal(t, 3, count(tx))
		require.Error(t, d.QueryRow(ctx, `SELECT 1`).Scan(new(int)))
		return nil
	}))
}

func TestDeferredStatementFails(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	err := postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		d := postgres.Defer(tx)
		_, _ = d.Exec(ctx, `SELECT 1`)
		_, _ = d.Exec(ctx, `SELECT 1 / $1::int`, 0)
		_, _ = d.Exec(ctx, `SELECT 1`)
		return d.Send(ctx)
	})
	var pe *pgconn.PgError
	require.ErrorAs(t, err, &pe)
	require.Equal(t, "22012", pe.Code)
}
