// Package postgres has what the stores in the packages below it share: migrations, transactions,
// their locks, and the clock. All times are those of the database's clock, so that the clocks of
// replicas need not agree. Tests may replace this clock.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"
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

// Migrations creates all tables of the service's database.
var Migrations = []postgres.MigrationSet{{Name: "ticket", FS: files}, answers.Migrations, outbox.Migrations, inbox.Migrations}

// EventSource is the CloudEvents source of this service's Kafka events.
const EventSource = "ticket"

// Database runs the statements and transactions of all stores.
type Database struct {
	pool, reads *pgxpool.Pool
	published   func()
	clock       func() time.Time
}

// Options are the optional settings of a Database.
type Options struct {
	// Reads is the pool of connections for visitors' reads. If it is nil, they use the main pool.
	Reads *pgxpool.Pool
	// Published is called after each commit that wrote Kafka events, to wake the outbox relay. If it
	// is nil, the relay finds them by polling.
	Published func()
	// Now replaces the database's clock in tests; nil in production.
	Now func() time.Time
}

// New makes a Database on a pool of connections.
func New(pool *pgxpool.Pool, opts Options) *Database {
	if opts.Published == nil {
		opts.Published = func() {}
	}
	if opts.Reads == nil {
		opts.Reads = pool
	}
	return &Database{pool: pool, reads: opts.Reads, published: opts.Published, clock: opts.Now}
}

// Queries runs SQL statements, in a transaction or outside of any. It also has the times that are
// passed to statements. If a time is nil, as in production, they read the database's clock.
type Queries struct {
	*db.Queries

	// AsOf replaces SQL's now(), the start of the transaction, in tests. It is nil in production.
	AsOf *time.Time

	clock func() time.Time
}

// ClockTime returns the present time of a test's clock. Statements use it in place of SQL's
// clock_timestamp(), which advances during a transaction. It is nil in production.
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

func (d *Database) Queries() *Queries { return d.queries(d.pool) }

// ReadQueries returns the statements on the pool for visitors' reads.
func (d *Database) ReadQueries() *Queries { return d.queries(d.reads) }

// Tx is a transaction with its statements.
type Tx struct {
	pgx.Tx
	*Queries

	// reached is the phase of the last locks that it has taken.
	reached phase
}

// InTx runs fn in a transaction and commits it. After a deadlock or a serialization failure it runs
// fn again in a new transaction.
func (d *Database) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	return postgres.InTxRetry(ctx, d.pool, func(ctx context.Context, tx pgx.Tx) error {
		return fn(ctx, &Tx{Tx: tx, Queries: d.queries(tx)})
	})
}

// InSnapshot runs fn in a read-only transaction with one snapshot of the database.
func (d *Database) InSnapshot(ctx context.Context, fn func(ctx context.Context, q *Queries) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, d.pool, opts, func(tx pgx.Tx) error { return fn(ctx, d.queries(tx)) })
	return postgres.Err(err)
}

// Published wakes the outbox relay after a commit that wrote events.
func (d *Database) Published() { d.published() }

// Now returns the time of this process, for decisions that concern this process only.
func (d *Database) Now() time.Time {
	if d.clock != nil {
		return d.clock()
	}
	return time.Now()
}

// OrNotFound returns notFound if err is pgx.ErrNoRows; it converts other errors by postgres.Err.
func OrNotFound(err, notFound error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound
	}
	return postgres.Err(err)
}

// TimeOrZero returns the time of a column, zero for NULL.
func TimeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// OrEpoch returns t, or the Unix epoch if t is zero. Statements on many rows store that as NULL.
func OrEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

// OrEmpty returns the text of a column, "" for NULL.
func OrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// UUIDArray returns ids as the text of a uuid[] of PostgreSQL. Statements on many rows take an array
// of such texts, since unnest would flatten an array of arrays.
func UUIDArray(ids []uuid.UUID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// ErrContradiction means that a bug, or a manual write, has left rows that contradict each other.
var ErrContradiction = errors.New("the database contradicts itself")

// ExpectRows returns err, or ErrContradiction with table's name if the number of changed rows is
// not want. After an error the transaction must not be committed.
func ExpectRows(changed int64, want int, table string, err error) error {
	if err != nil {
		return err
	}
	if changed != int64(want) {
		return fmt.Errorf("%d %s changed, not %d: %w", changed, table, want, ErrContradiction)
	}
	return nil
}

// OrMaxUUID returns before, or the greatest UUID if before is zero, so that a page of a list begins
// with the newest element.
func OrMaxUUID(before uuid.UUID) uuid.UUID {
	if before == uuid.Nil {
		return uuid.Max
	}
	return before
}
