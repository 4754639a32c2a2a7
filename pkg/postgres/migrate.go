package postgres

import (
	"context"
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
	return Migrate(ctx, pool, sets...)
}

// Migrate applies the sets in the given order under a session advisory lock, so that all replicas
// may call it at once (a waiting one retries ten times a second, for up to five minutes). Its
// session has no statement timeout, may be idle in a transaction for a minute, and waits at most 5
// s for a lock, unless the URL says otherwise: a migration that waits for a lock blocks the traffic
// behind it.
func Migrate(ctx context.Context, pool *pgxpool.Pool, sets ...MigrationSet) error {
	cc := pool.Config().ConnConfig.Copy()
	cc.Tracer = nil
	cc.RuntimeParams["statement_timeout"] = "0"
	cc.RuntimeParams["idle_in_transaction_session_timeout"] = millis(migrationIdle)
	setDefault(cc.RuntimeParams, "lock_timeout", millis(lockTimeout))
	db := stdlib.OpenDB(*cc)
	defer func() { _ = db.Close() }()
	for _, set := range sets {
		files, err := fs.Sub(set.FS, "migrations")
		if err != nil {
			return fmt.Errorf("migrations of %s: %w", set.Name, err)
		}
		p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName("schema_"+set.Name),
			goose.WithSessionLocker(migrationLock{}), goose.WithDisableGlobalRegistry(true))
		if err != nil {
			return fmt.Errorf("migrations of %s: %w", set.Name, err)
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate %s: %w", set.Name, Err(err))
		}
	}
	return nil
}
