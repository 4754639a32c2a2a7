package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
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
	pool := open(t, postgrestest.URL(t))
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
		cfg := postgres.Config{URL: url}
		_, err := postgres.Open(t.Context(), cfg, "test")
		for _, err := range []error{err, cfg.Validate()} {
			require.ErrorContains(t, err, "DATABASE_URL")
			require.NotContains(t, err.Error(), "hunter2")
		}
	}
}

// The outbox publishes rows older than 10 s even while transactions run, so no transaction may last
// that long.
func TestTransactionTimeout(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	remaining := func(ctx context.Context) (remaining time.Duration) {
		require.NoError(t, postgres.InTx(ctx, pool, func(ctx context.Context, _ pgx.Tx) error {
			deadline, limited := ctx.Deadline()
			require.True(t, limited)
			remaining = time.Until(deadline)
			return nil
		}))
		return remaining
	}
	require.LessOrEqual(t, remaining(t.Context()), 8*time.Second)
	short, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	require.LessOrEqual(t, remaining(short), 4*time.Second, "the caller's own, when it is shorter")
}

// A transaction that takes too long is Unavailable, so the caller may retry it. The end of the
// caller's own deadline is not Unavailable.
func TestTransactionTimeoutIsUnavailable(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, account())
	wait := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0; SELECT pg_sleep(3600)`)
		return err
	}
	require.ErrorIs(t, postgres.InTxWithin(t.Context(), pool, 50*time.Millisecond, wait), errs.ErrUnavailable)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := postgres.InTx(short, pool, wait)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, errs.ErrUnavailable)
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

// A constraint that is violated at the commit must not look like a success.
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

// When the session dies during the commit, it is unknown whether the change was committed: that is
// no success, and no definite failure.
func TestInTxReportsLostCommit(t *testing.T) {
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

// Two transactions lock the same two rows in opposite order: one is the deadlock's victim and is
// run again.
func TestInTxRetrySurvivesADeadlock(t *testing.T) {
	t.Parallel()
	pool := open(t, postgrestest.URL(t, account())+"&deadlock_timeout=20") // ms
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

// After a failover to a server that is not ready there may be no such role or database yet: callers
// should retry, as for any server that is away.
func TestServerNotReady(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no database": backendtest.Postgres(t, "not_there_yet"),
		"no role":     strings.Replace(backendtest.Postgres(t, "postgres"), "urr@", "not_there_yet@", 1),
	} {
		pool, err := postgres.Open(t.Context(), postgres.Config{URL: config.Secret(url), MaxConns: 2}, "test")
		require.NoError(t, err)
		defer pool.Close()
		err = postgres.InTx(t.Context(), pool, func(context.Context, pgx.Tx) error { return nil })
		require.ErrorIs(t, err, errs.ErrUnavailable, name)
	}
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
	err = postgres.InTx(t.Context(), pool, func(context.Context, pgx.Tx) error { return nil })
	require.ErrorIs(t, err, errs.ErrUnavailable)
}

// Sets with one name and different content, as before and after a migration, replace each other's
// template. A template that is being copied stays.
func TestTemplatesOfOneNameAlternate(t *testing.T) {
	t.Parallel()
	for i := range 12 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			set := postgres.MigrationSet{Name: "alternating", FS: fstest.MapFS{"migrations/0001_one.sql": &fstest.MapFile{
				Data: fmt.Appendf(nil, "-- +goose Up\nCREATE TABLE version_%d (id int);\n", i%2),
			}}}
			pool := postgrestest.New(t, set)
			_, err := pool.Exec(t.Context(), fmt.Sprintf(`SELECT FROM version_%d`, i%2))
			require.NoError(t, err)
		})
	}
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
