package postgres_test

import (
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
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

// accountFiles returns account's migrations with more files. They replace files of the same name.
func accountFiles(t *testing.T, more map[string]string) postgres.MigrationSet {
	t.Helper()
	first, err := os.ReadFile("testdata/migrations/0001_account.sql")
	require.NoError(t, err)
	files := fstest.MapFS{"migrations/0001_account.sql": {Data: first}}
	for name, content := range more {
		files["migrations/"+name] = &fstest.MapFile{Data: []byte(content)}
	}
	return postgres.MigrationSet{Name: "account", FS: files}
}

// altered returns account with one more migration, which needs an exclusive table lock.
func altered(t *testing.T) postgres.MigrationSet {
	t.Helper()
	return accountFiles(t, map[string]string{"0002_note.sql": "-- +goose Up\nALTER TABLE account ADD COLUMN note text;\n"})
}

// columns lists all columns of the database, and the versions of account.
func columns(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'
		UNION ALL SELECT 'version ' || version_id FROM schema_account ORDER BY 1`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

const edited = "-- +goose Up\nCREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL, owner text);\n"

// Before the first release, a change of the schema edits the file that made it. A database that was
// made from the old file is not changed, not even by another set.
func TestEditedMigrationIsRefused(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	before := columns(t, pool)
	require.NoError(t, postgres.Migrate(t.Context(), pool, account()), "the same file")
	require.Equal(t, before, columns(t, pool))

	other := postgres.MigrationSet{Name: "other", FS: fstest.MapFS{"migrations/0001_other.sql": {Data: []byte("-- +goose Up\nCREATE TABLE other (id int);\n")}}}
	another := accountFiles(t, map[string]string{"0001_account.sql": edited, "0002_note.sql": "-- +goose Up\nCREATE TABLE note (id int);\n"})
	for range 2 {
		require.EqualError(t, postgres.Migrate(t.Context(), pool, other, another),
			"0001_account.sql of account: this database was made from another version of the file, and nothing was changed: run make reset")
		require.Equal(t, before, columns(t, pool))
	}
	require.NoError(t, postgres.Migrate(t.Context(), pool, altered(t)), "a new file")
	require.Subset(t, columns(t, pool), []string{"account.note", "version 2"})
	require.NoError(t, postgres.Migrate(t.Context(), pool, account()), "as after a rollback")
}

func TestMigrateOnceNamesTheService(t *testing.T) {
	t.Parallel()
	cfg := postgres.Config{URL: postgrestest.URL(t, account()), MaxConns: 2}
	require.ErrorContains(t, postgres.MigrateOnce(t.Context(), cfg, "bank", accountFiles(t, map[string]string{"0001_account.sql": edited})),
		"database of bank: 0001_account.sql of account")
}

// Every applied version must have a stored hash of its file.
func TestVersionWithoutHashIsRefused(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{`DROP TABLE schema_account_files`, `DELETE FROM schema_account_files`} {
		pool := postgrestest.New(t, account())
		_, err := pool.Exec(t.Context(), lost)
		require.NoError(t, err)
		require.ErrorContains(t, postgres.Migrate(t.Context(), pool, account()), "0001_account.sql of account")
	}
	pool := postgrestest.New(t, account())
	_, err := pool.Exec(t.Context(), `INSERT INTO schema_account (version_id, is_applied) VALUES (2, true)`)
	require.NoError(t, err)
	require.ErrorContains(t, postgres.Migrate(t.Context(), pool, account()), "migration 2 of account")
}

// A file that failed may be edited before it is applied.
func TestFailedMigrationMayBeEdited(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	require.Error(t, postgres.Migrate(t.Context(), pool, accountFiles(t, map[string]string{"0002_note.sql": "-- +goose Up\nSELECT nothing;\n"})))
	require.NoError(t, postgres.Migrate(t.Context(), pool, altered(t)))
	require.NoError(t, postgres.Migrate(t.Context(), pool, altered(t)))
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
	require.ErrorIs(t, postgres.MigrateWithoutPauses(t.Context(), open(t, url+"&lock_timeout=20"), altered(t)), errs.ErrUnavailable)
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, postgres.Migrate(t.Context(), pool, altered(t)))
	_, err = pool.Exec(t.Context(), `SELECT note FROM account`)
	require.NoError(t, err)
}

// A migration that does not get its lock lets the traffic pass and tries again, for longer than a
// transaction may take.
func TestMigrateTriesAgainForALock(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t, account())
	pool := open(t, url)
	reader, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = reader.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0; SELECT FROM account`)
	require.NoError(t, err)
	migrated := make(chan error, 1)
	migrating, change := open(t, url+"&lock_timeout=1000"), altered(t)
	go func() { migrated <- postgres.MigrateWithoutPauses(t.Context(), migrating, change) }()
	attempts := map[time.Time]bool{}
	testkit.Until(t, func() bool {
		var began *time.Time
		err := pool.QueryRow(t.Context(), `SELECT max(query_start) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE account%'`).Scan(&began)
		if err == nil && began != nil {
			attempts[*began] = true
		}
		return err != nil || len(attempts) == 2
	}, "a second attempt")
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, testkit.Receive(t, migrated, "the migration"))
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
	want := []string{"idle_in_transaction_session_timeout 60000", "lock_timeout 300", "statement_timeout 0"} // ms
	require.Empty(t, cmp.Diff(want, got))
}

func open(t *testing.T, url config.Secret) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// A set with its own schema can be dropped and made again, while other tables stay.
func TestMigrationsInASchema(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	figures := account()
	figures.Schema = "figures"
	tables := func() (names []string) {
		rows, err := pool.Query(t.Context(), `SELECT table_schema || '.' || table_name FROM information_schema.tables
			WHERE table_schema IN ('public', 'figures') ORDER BY 1`)
		require.NoError(t, err)
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return names
	}
	want := []string{
		"figures.account", "figures.schema_account", "figures.schema_account_files",
		"public.account", "public.schema_account", "public.schema_account_files",
	}
	require.NoError(t, postgres.Migrate(t.Context(), pool, account(), figures))
	require.Equal(t, want, tables())
	_, err := pool.Exec(t.Context(), `DROP SCHEMA figures CASCADE`)
	require.NoError(t, err)
	require.Equal(t, want[3:], tables())
	require.NoError(t, postgres.Migrate(t.Context(), pool, account(), figures))
	require.Equal(t, want, tables())
}
