// Package postgres is the service's database. The packages below it are its stores, one per thing
// that is stored; this one has what they share: the migrations, the transactions, the clock, and
// the locks of users.
//
// Every transaction that changes a reservation takes its locks in one order: the advisory lock of
// (event, user), then seats by their index (sections with general admission), then reservations by
// id. Time is the database's everywhere, so that replicas need not agree on theirs; tests may set
// it.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations create all tables of the service's database.
var Migrations = []postgres.MigrationSet{{Name: "ticket", FS: files}, answers.Migrations, outbox.Migrations, inbox.Migrations}

// Database is what all stores work on.
type Database struct {
	pool, reads *pgxpool.Pool
	published   func()
	clock       func() time.Time
}

// Options of a Database.
type Options struct {
	// Reads is the pool of what visitors read of events, apart from the one that holds and payments
	// use; nil: the same.
	Reads *pgxpool.Pool
	// Published is called after each commit that wrote events; nil: the relay finds them by
	// polling.
	Published func()
	// Now is the clock that rules are judged by; nil, as in production: the database's.
	Now func() time.Time
}

// New makes a Database.
func New(pool *pgxpool.Pool, opts Options) *Database {
	if opts.Published == nil {
		opts.Published = func() {}
	}
	if opts.Reads == nil {
		opts.Reads = pool
	}
	return &Database{pool: pool, reads: opts.Reads, published: opts.Published, clock: opts.Now}
}

// Queries are the statements of one transaction, or of reads outside of one, with the time that
// they are given. A nil time, as in production, means the database's clock.
type Queries struct {
	*db.Queries

	// AsOf replaces now(), which does not move during a transaction.
	AsOf *time.Time

	clock func() time.Time
}

// ClockTime replaces clock_timestamp(), which moves during a transaction.
func (q *Queries) ClockTime() *time.Time {
	if q.clock == nil {
		return nil
	}
	now := q.clock()
	return &now
}

func (d *Database) queries(conn db.DBTX) *Queries {
	q := &Queries{Queries: db.New(conn), clock: d.clock}
	q.AsOf = q.ClockTime()
	return q
}

// Queries returns the statements outside of a transaction.
func (d *Database) Queries() *Queries { return d.queries(d.pool) }

// ReadQueries returns the statements on the pool of what visitors read.
func (d *Database) ReadQueries() *Queries { return d.queries(d.reads) }

// Tx is a transaction with its statements.
type Tx struct {
	pgx.Tx
	*Queries
}

// InTx runs fn in a transaction, again when PostgreSQL aborted it for another one's sake. The error
// of the commit is returned.
func (d *Database) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	return postgres.InTxRetry(ctx, d.pool, func(ctx context.Context, tx pgx.Tx) error {
		return fn(ctx, &Tx{Tx: tx, Queries: d.queries(tx)})
	})
}

// InSnapshot runs the reads of fn on one snapshot of the database.
func (d *Database) InSnapshot(ctx context.Context, fn func(ctx context.Context, q *Queries) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, d.pool, opts, func(tx pgx.Tx) error { return fn(ctx, d.queries(tx)) })
	return postgres.Err(err)
}

// Published wakes the outbox relay after a commit that wrote events.
func (d *Database) Published() { d.published() }

// Now is the process's clock, for what only this process decides.
func (d *Database) Now() time.Time {
	if d.clock != nil {
		return d.clock()
	}
	return time.Now()
}

// OrNotFound replaces the driver's error for "no row" by the domain's.
func OrNotFound(err, notFound error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound
	}
	return postgres.Err(err)
}

// ErrContradiction means that a bug, or a manual write, has left rows that contradict each other.
var ErrContradiction = errors.New("the database contradicts itself")

// ExpectRows makes an error of a write that changed another number of rows than are locked: its
// transaction must not be committed.
func ExpectRows(changed int64, want int, what string, err error) error {
	if err != nil {
		return err
	}
	if changed != int64(want) {
		return fmt.Errorf("%d %s changed, not %d: %w", changed, what, want, ErrContradiction)
	}
	return nil
}

// OrMaxUUID is the id before which a list begins, newest first: the whole list for the zero UUID.
func OrMaxUUID(before uuid.UUID) uuid.UUID {
	if before == uuid.Nil {
		return uuid.Max
	}
	return before
}
