package postgres_test

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

func account() postgres.MigrationSet {
	return postgres.MigrationSet{Name: "account", FS: os.DirFS("testdata")}
}

func balance(t *testing.T, pool *pgxpool.Pool, id int) int {
	t.Helper()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT balance FROM account WHERE id = $1`, id).Scan(&n))
	return n
}

func TestSessionsHaveLimits(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	for setting, want := range map[string]string{"statement_timeout": "5s", "idle_in_transaction_session_timeout": "5s"} {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
}

func TestOpenRefusesABadURL(t *testing.T) {
	t.Parallel()
	for _, url := range []config.Secret{
		"postgres://%zz", "postgres://urr:hunter2%@h/db", "postgres://urr:hunter2@h:x/db", "postgres://urr:hunter2@[h/db", "urr:hunter2@h/db",
		"host=h password='hunter2 port=1", "postgres://urr:hunter2@h/db?sslmode=some",
	} {
		_, err := postgres.Open(t.Context(), postgres.Config{URL: url}, "test")
		require.ErrorContains(t, err, "DATABASE_URL")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestInTxCommitsOrRollsBack(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	boom := errors.New("boom")
	insert := func(id int, end error) error {
		return postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO account VALUES ($1, 1)`, id)
			return errors.Join(err, end)
		})
	}
	require.NoError(t, insert(1, nil))
	require.ErrorIs(t, insert(2, boom), boom)
	require.Panics(t, func() {
		_ = postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, `INSERT INTO account VALUES (3, 1)`)
			panic("boom")
		})
	})
	require.ErrorContains(t, insert(1, nil), "account_pkey")
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM account`).Scan(&n))
	require.Equal(t, 1, n)
	require.Zero(t, pool.Stat().AcquiredConns(), "no transaction may keep its connection")
}

// A constraint checked at commit must not look like a success.
func TestInTxReturnsTheCommitError(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	_, err := pool.Exec(t.Context(), `CREATE TABLE child (id bigint REFERENCES account DEFERRABLE INITIALLY DEFERRED)`)
	require.NoError(t, err)
	err = postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO child VALUES (99)`)
		return err
	})
	require.ErrorContains(t, err, "child_id_fkey")
}

// When the session dies while it commits, nobody knows whether the change is there: that is no success, and no plain failure either.
func TestInTxTellsALostCommit(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	_, err := pool.Exec(t.Context(), `
		CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()`)
	require.NoError(t, err)
	done := false
	err = postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO account VALUES (1, 1)`)
		done = err == nil
		return err
	})
	require.True(t, done, "it was the commit that failed")
	require.ErrorIs(t, err, errs.ErrUnavailable)
}

func TestInTxRollsBackAfterItsContextEnded(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	ctx, cancel := context.WithCancel(t.Context())
	err := postgres.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO account VALUES (1, 1)`)
		cancel()
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO account VALUES (1, 1)`) // would wait if the row were still locked
		return err
	}))
}

// Two transactions lock the same two rows in opposite order: one is the deadlock's victim and is run again.
func TestInTxRetrySurvivesADeadlock(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	_, err := pool.Exec(t.Context(), `INSERT INTO account VALUES (1, 100), (2, 100)`)
	require.NoError(t, err)

	var first sync.WaitGroup // both hold their first lock before either asks for the second
	first.Add(2)
	var once [2]sync.Once
	move := func(i, from, to int) error {
		return postgres.InTxRetry(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE account SET balance = balance - 10 WHERE id = $1`, from); err != nil {
				return err
			}
			once[i].Do(first.Done)
			first.Wait()
			_, err := tx.Exec(ctx, `UPDATE account SET balance = balance + 10 WHERE id = $1`, to)
			return err
		})
	}
	results := make(chan error, 2)
	go func() { results <- move(0, 1, 2) }()
	go func() { results <- move(1, 2, 1) }()
	require.NoError(t, <-results)
	require.NoError(t, <-results)
	require.Equal(t, 100, balance(t, pool, 1))
	require.Equal(t, 100, balance(t, pool, 2))
}

func TestErr(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	_, err := pool.Exec(t.Context(), `INSERT INTO account VALUES (1, -1)`)
	require.ErrorContains(t, err, "balance_positive")
	require.Equal(t, errs.Internal, errs.From(postgres.Err(err)).Kind, "a violated constraint is no outage")

	_, err = pool.Exec(t.Context(), `SET statement_timeout = 20; SELECT pg_sleep(10)`)
	require.ErrorIs(t, postgres.Err(err), errs.ErrUnavailable)

	err = postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := pool.Exec(ctx, `SELECT pg_terminate_backend($1)`, tx.Conn().PgConn().PID())
		require.NoError(t, err)
		_, err = tx.Exec(ctx, `SELECT 1`)
		return err
	})
	require.ErrorIs(t, err, errs.ErrUnavailable)

	require.ErrorIs(t, postgres.Err(context.Canceled), context.Canceled)
	require.NotErrorIs(t, postgres.Err(context.Canceled), errs.ErrUnavailable)
	require.NoError(t, postgres.Err(nil))
}

func TestNobodyListening(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	url := config.Secret("postgres://urr@" + l.Addr().String() + "/x?sslmode=disable")
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2}, "test")
	require.NoError(t, err, "the start does not depend on the database")
	defer pool.Close()
	begun := time.Now()
	err = postgres.InTx(t.Context(), pool, func(context.Context, pgx.Tx) error { return nil })
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Less(t, time.Since(begun), 10*time.Second)
}

func TestDatabasesAreSeparateAndDropped(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("one", func(t *testing.T) {
		a, b := postgrestest.New(t, account()), postgrestest.New(t, account())
		_, err := a.Exec(t.Context(), `INSERT INTO account VALUES (1, 1)`)
		require.NoError(t, err)
		var n int
		require.NoError(t, b.QueryRow(t.Context(), `SELECT count(*) FROM account`).Scan(&n))
		require.Zero(t, n)
		require.NoError(t, a.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	})
	admin, err := pgx.Connect(t.Context(), backendtest.Postgres(t, "postgres"))
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	var exists bool
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, name).Scan(&exists))
	require.False(t, exists)
}
