// Package postgres keeps campaigns, entries and allocations in PostgreSQL, and writes the Kafka
// events about them to the outbox.
package postgres

import (
	"context"
	"embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/reward/internal/postgres/db"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations creates all tables of the service's database.
var Migrations = []postgres.MigrationSet{{Name: "reward", FS: files}, answers.Migrations, outbox.Migrations, inbox.Migrations}

// SessionOptions returns the options of the service's database sessions: they always use generic
// plans. The planner expects a LIMIT with a parameter to return a tenth of the rows, and so would
// plan the statement Claim anew for each execution, which takes longer than the execution itself.
func SessionOptions() []postgres.Option {
	return []postgres.Option{postgres.Indexed(), postgres.Setting("plan_cache_mode", "force_generic_plan")}
}

// source is the CloudEvents source of this service's events.
const source = "reward"

// chunk is the most allocations that one transaction changes. A transaction of this size stays far
// below its time limit.
const chunk = 1000

// Options are the optional parts of a Database.
type Options struct {
	// Reads is the connection pool for members' pages; nil: they use the main pool.
	Reads *pgxpool.Pool
	// Now is set by tests only; nil: the database's clock.
	Now func() time.Time
	// Published is called after a transaction wrote Kafka events; nil: the relay polls for them.
	Published func()
}

// Database is the pool and the clock that the stores share. Locks are taken in this order: member
// (advisory), allocations by id, prizes by id, totals by status. An entry locks prizes before it
// inserts allocations, but nobody else can have locked the new rows. Cancel breaks the order: it
// learns which prizes to give back only from its update, which locks totals. After a deadlock with
// a draw its transaction is repeated.
type Database struct {
	pool  *pgxpool.Pool
	q     *db.Queries
	reads *db.Queries // for members' pages
	opts  Options
}

// New makes the Database on the pool.
func New(pool *pgxpool.Pool, opts Options) *Database {
	if opts.Published == nil {
		opts.Published = func() {}
	}
	if opts.Reads == nil {
		opts.Reads = pool
	}
	startCounters()
	return &Database{pool: pool, q: db.New(pool), reads: db.New(opts.Reads), opts: opts}
}

// now returns the present time for statements: a test's time, or nil for the database's clock.
func (d *Database) now() *time.Time {
	if d.opts.Now == nil {
		return nil
	}
	t := d.opts.Now()
	return &t
}

// inTx runs fn in a transaction and repeats it after a deadlock.
func (d *Database) inTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx, q *db.Queries) error) error {
	return postgres.InTxRetry(ctx, d.pool, func(ctx context.Context, tx pgx.Tx) error { return fn(ctx, tx, db.New(tx)) })
}

// orZero returns the value of a nullable column, and the zero value for NULL.
func orZero[T any](v *T) T {
	if v == nil {
		return *new(T)
	}
	return *v
}
