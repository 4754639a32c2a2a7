// Package postgres keeps campaigns, entries and allocations in PostgreSQL, and their events in the
// outbox.
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

// Migrations create all tables of the service's database.
var Migrations = []postgres.MigrationSet{{Name: "reward", FS: files}, answers.Migrations, outbox.Migrations, inbox.Migrations}

// Session returns the options of the service's sessions. The planner takes a LIMIT with a parameter
// for a tenth of the rows, so that it would find a generic plan of Claim dearer than any other, and
// plan each execution anew, which takes longer than the execution.
func Session() []postgres.Option {
	return []postgres.Option{postgres.Indexed(), postgres.Setting("plan_cache_mode", "force_generic_plan")}
}

// source is the CloudEvents source of this service's events.
const source = "reward"

// chunk is the number of allocations that one transaction changes: far below the limit of its time.
const chunk = 1000

// Options of the stores.
type Options struct {
	// Now is set by tests only; nil is the database's clock.
	Now func() time.Time
	// Published is called after a transaction with events; nil: the relay finds them by its poll.
	Published func()
}

// Database is the pool and the clock that the stores share. Locks are taken in the order member
// (advisory), allocations by id, prizes by id. An entry takes a prize before it inserts
// allocations, which nobody else can have locked. Two draws that find several prizes gone at once
// may deadlock; one of them is repeated.
type Database struct {
	pool *pgxpool.Pool
	q    *db.Queries
	opts Options
}

// New makes the Database on the pool.
func New(pool *pgxpool.Pool, opts Options) *Database {
	if opts.Published == nil {
		opts.Published = func() {}
	}
	startCounters()
	return &Database{pool: pool, q: db.New(pool), opts: opts}
}

// now is the parameter of the statements; nil is the database's clock.
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

func fromOptional(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
