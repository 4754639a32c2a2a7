package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"urr.guru/pkg/loop"
)

// MigrationSet is a set of tables with its own version history: those of a service, of the outbox,
// or of the inbox.
type MigrationSet struct {
	// Name consists of [a-z0-9_]. The applied versions are kept in the table schema_<name>.
	Name string
	// Schema is where the tables and versions are, created if it is missing; empty: the first of
	// the session's search_path, public. A schema can be dropped and made anew without the rest.
	Schema string
	// FS holds NNNN_name.sql files (goose) in the folder migrations, as embedded by //go:embed
	// migrations/*.sql.
	FS fs.FS
}

// A migration file that does not get a lock is tried again. All tries together last longer than any
// transaction of a service.
const (
	lockAttempts = 20
	lockPause    = 500 * time.Millisecond
)

// migrationIdle is how long a migration may be idle in its transaction before the server ends it.
// While a transaction hangs, the whole server keeps old versions of rows.
const migrationIdle = time.Minute

// MigrateOnce opens a pool, applies the sets as Migrate does, and closes the pool: the whole
// migration of a service's database.
func MigrateOnce(ctx context.Context, cfg Config, name string, sets ...MigrationSet) error {
	pool, err := Open(ctx, cfg, name)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := Migrate(ctx, pool, sets...); err != nil {
		return fmt.Errorf("database of %s: %w", name, err)
	}
	return nil
}

// Migrate applies the sets in the given order under a session advisory lock, so that all replicas
// may call it at once (a waiting one retries ten times a second, for up to five minutes). Its
// session has no statement timeout, may be idle in a transaction for a minute, and waits at most 0.3
// s for a lock, unless the URL says otherwise: a migration that waits for a lock blocks the traffic
// behind it. It tries again up to 20 times. A file without a transaction, as for CREATE INDEX
// CONCURRENTLY, which blocks nobody, sets its own lock_timeout and must be repeatable.
//
// It changes nothing and fails when a file that was applied has been edited since.
func Migrate(ctx context.Context, pool *pgxpool.Pool, sets ...MigrationSet) error {
	return migrate(ctx, pool, lockPause, sets)
}

func migrate(ctx context.Context, pool *pgxpool.Pool, pause time.Duration, sets []MigrationSet) error {
	cc := pool.Config().ConnConfig.Copy()
	cc.Tracer = nil
	cc.RuntimeParams["statement_timeout"] = "0"
	cc.RuntimeParams["idle_in_transaction_session_timeout"] = millisText(migrationIdle)
	setDefault(cc.RuntimeParams, "lock_timeout", millisText(lockTimeout))
	// The server notices within a minute that a client with the lock has vanished with its machine.
	setDefault(cc.RuntimeParams, "tcp_keepalives_idle", "30")
	setDefault(cc.RuntimeParams, "tcp_keepalives_interval", "10")
	setDefault(cc.RuntimeParams, "tcp_keepalives_count", "3")
	main, err := connect(ctx, cc, "")
	if err != nil {
		return err
	}
	defer main.close()
	if err := lockAll.SessionLock(ctx, main.conn); err != nil {
		return err
	}
	// The end of the session would release the lock too, but only when the server notices it.
	defer lockAll.release(ctx, main.conn)
	all := make([]*migration, len(sets))
	for i, set := range sets {
		session := main
		if set.Schema != "" {
			if session, err = connect(ctx, cc, set.Schema); err != nil {
				return err
			}
			defer session.close()
		}
		if all[i], err = newMigration(session, set); err != nil {
			return err
		}
		if err := all[i].files.checkUnchanged(ctx, session.conn); err != nil {
			return err
		}
	}
	for _, m := range all {
		if err := m.files.storeHashes(ctx, m.session.conn); err != nil {
			return err
		}
		if err := m.apply(ctx, pause); err != nil {
			return fmt.Errorf("migrate %s: %w", m.files.set.Name, Err(err))
		}
	}
	return nil
}

// migrationSession is a database connection of a migration.
type migrationSession struct {
	db   *sql.DB
	conn *sql.Conn
}

// connect opens a session whose search_path is the schema, which it creates if it is missing; "":
// the search_path of the URL.
func connect(ctx context.Context, cc *pgx.ConnConfig, schema string) (*migrationSession, error) {
	if schema != "" {
		cc = cc.Copy()
		cc.RuntimeParams["search_path"] = schema
	}
	s := &migrationSession{db: stdlib.OpenDB(*cc)}
	var err error
	if s.conn, err = s.db.Conn(ctx); err == nil && schema != "" {
		_, err = s.conn.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{schema}.Sanitize())
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("migrate: %w", Err(err))
	}
	return s, nil
}

func (s *migrationSession) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	_ = s.db.Close()
}

// migration applies one set to a database.
type migration struct {
	session  *migrationSession
	files    *fileHashes
	provider *goose.Provider
}

func newMigration(session *migrationSession, set MigrationSet) (*migration, error) {
	files, err := fs.Sub(set.FS, "migrations")
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", set.Name, err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, session.db, files, goose.WithTableName(versionTable(set)),
		goose.WithSessionLocker(lockOne), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", set.Name, err)
	}
	hashes, err := newFileHashes(set, files, p.ListSources())
	if err != nil {
		return nil, err
	}
	return &migration{session: session, files: hashes, provider: p}, nil
}

// apply applies the files that are missing. A file that did not get a lock is tried again after a
// pause, in which the statements that wait behind it run.
func (m *migration) apply(ctx context.Context, pause time.Duration) error {
	for attempt := 1; ; attempt++ {
		_, err := m.provider.Up(ctx)
		var pe *pgconn.PgError
		if attempt == lockAttempts || !errors.As(err, &pe) || pe.Code != "55P03" { // lock_timeout
			return err
		}
		if !loop.Sleep(ctx, pause) {
			return err
		}
	}
}

func versionTable(set MigrationSet) string { return "schema_" + set.Name }
