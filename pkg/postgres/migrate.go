package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// MigrationSet is a schema with its own version history: a service's tables, the outbox, the inbox.
type MigrationSet struct {
	// Name of [a-z0-9_]; the versions are kept in the table schema_<name>.
	Name string
	// FS holds NNNN_name.sql files (goose) in the folder migrations, as embedded by //go:embed
	// migrations/*.sql.
	FS fs.FS
}

// migrationIdle ends the transaction of a hanging migration, which holds back the snapshot horizon
// of the whole server.
const migrationIdle = time.Minute

// MigrateOnce is Migrate with its own pool: the complete migration of a service's database.
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
// session has no statement timeout, may be idle in a transaction for a minute, and waits at most 5
// s for a lock, unless the URL says otherwise: a migration that waits for a lock blocks the traffic
// behind it.
//
// It changes nothing and fails when a file that was applied has been edited since.
func Migrate(ctx context.Context, pool *pgxpool.Pool, sets ...MigrationSet) error {
	cc := pool.Config().ConnConfig.Copy()
	cc.Tracer = nil
	cc.RuntimeParams["statement_timeout"] = "0"
	cc.RuntimeParams["idle_in_transaction_session_timeout"] = millis(migrationIdle)
	setDefault(cc.RuntimeParams, "lock_timeout", millis(lockTimeout))
	// The server notices within a minute that a client with the lock has vanished with its machine.
	setDefault(cc.RuntimeParams, "tcp_keepalives_idle", "30")
	setDefault(cc.RuntimeParams, "tcp_keepalives_interval", "10")
	setDefault(cc.RuntimeParams, "tcp_keepalives_count", "3")
	db := stdlib.OpenDB(*cc)
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", Err(err))
	}
	defer func() { _ = conn.Close() }() // db.Close ends its session, and with it the lock
	if err := lockAll.SessionLock(ctx, conn); err != nil {
		return err
	}
	all := make([]*migration, len(sets))
	for i, set := range sets {
		if all[i], err = newMigration(db, set); err != nil {
			return err
		}
		if err := all[i].files.checkUnchanged(ctx, conn); err != nil {
			return err
		}
	}
	for _, m := range all {
		if err := m.files.storeHashes(ctx, conn); err != nil {
			return err
		}
		if _, err := m.provider.Up(ctx); err != nil {
			return fmt.Errorf("migrate %s: %w", m.files.set.Name, Err(err))
		}
	}
	return nil
}

// migration is a set that is applied to a database.
type migration struct {
	files    *fileHashes
	provider *goose.Provider
}

func newMigration(db *sql.DB, set MigrationSet) (*migration, error) {
	files, err := fs.Sub(set.FS, "migrations")
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", set.Name, err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(versionTable(set)),
		goose.WithSessionLocker(lockOne), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("migrations of %s: %w", set.Name, err)
	}
	hashes, err := newFileHashes(set, files, p.ListSources())
	if err != nil {
		return nil, err
	}
	return &migration{files: hashes, provider: p}, nil
}

func versionTable(set MigrationSet) string { return "schema_" + set.Name }
