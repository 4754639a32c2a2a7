package postgres_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

func TestMigrateIsRepeatableAndConcurrent(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	results := make(chan error, 4)
	for range cap(results) {
		go func() { results <- postgres.Migrate(t.Context(), pool, account()) }()
	}
	for range cap(results) {
		require.NoError(t, <-results)
	}
	var version int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT max(version_id) FROM schema_account`).Scan(&version))
	require.Equal(t, 1, version)
}

// altered is account with one more migration, which needs an exclusive table lock.
func altered(t *testing.T) postgres.MigrationSet {
	t.Helper()
	first, err := os.ReadFile("testdata/migrations/0001_account.sql")
	require.NoError(t, err)
	return postgres.MigrationSet{Name: "account", FS: fstest.MapFS{
		"migrations/0001_account.sql": {Data: first},
		"migrations/0002_note.sql":    {Data: []byte("-- +goose Up\nALTER TABLE account ADD COLUMN note text;\n")},
	}}
}

// A migration that waits for a lock blocks all later statements: it fails soon and leaves nothing
// half applied.
func TestMigrateDoesNotBlockTraffic(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t, account())
	pool := open(t, url)
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = reader.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0; SELECT FROM account`)
	require.NoError(t, err)
	require.ErrorIs(t, postgres.Migrate(t.Context(), open(t, url+"&lock_timeout=20"), altered(t)), errs.ErrUnavailable)
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, postgres.Migrate(t.Context(), pool, altered(t)))
	_, err = pool.Exec(t.Context(), `SELECT note FROM account`)
	require.NoError(t, err)
}

func TestMigrationSessionLimits(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.MigrationSet{Name: "limits", FS: fstest.MapFS{
		"migrations/0001_limits.sql": {Data: []byte(`-- +goose Up
CREATE TABLE limits AS SELECT name, setting FROM pg_settings WHERE name = ANY (ARRAY[
    'lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout']);
`)},
	}}))
	rows, err := pool.Query(t.Context(), `SELECT name || ' ' || setting FROM limits ORDER BY name`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	want := []string{"idle_in_transaction_session_timeout 60000", "lock_timeout 5000", "statement_timeout 0"} // ms
	require.Empty(t, cmp.Diff(want, got))
}

func open(t *testing.T, url config.Secret) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
