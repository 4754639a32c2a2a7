// Package postgres has what the stores in the packages below it share: migrations, transactions,
// the clock, and the locks of users.
//
// Every transaction takes its locks in one order: claims of refunds by id, the advisory locks of
// payments, then those of (event, user), or (series, user) where the event has a series, then seats by their index (sections with general
// admission), then reservations by id, then tickets by id. Whoever needs an event's row locks it
// before all of these. All times are the database's, so that the clocks of replicas need not agree.
// Tests may replace it.
package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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

// Database runs the statements and transactions of all stores.
type Database struct {
	pool, reads *pgxpool.Pool
	published   func()
	clock       func() time.Time
}

// Options of a Database.
type Options struct {
	// Reads is the pool for visitors' reads of events; nil: the pool of holds and payments.
	Reads *pgxpool.Pool
	// Published is called after each commit that wrote events; nil: the relay finds them by
	// polling.
	Published func()
	// Now replaces the database's clock in tests; nil in production.
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

// Queries runs SQL statements, in one transaction or outside of any, and has the times to give to
// them. A nil time, as in production, stands for the database's clock.
type Queries struct {
	*db.Queries

	// AsOf replaces now(), which is constant in a transaction.
	AsOf *time.Time

	clock func() time.Time
}

// ClockTime replaces clock_timestamp(), which advances during a transaction.
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

// Now returns the time of this process, for decisions that concern no other one.
func (d *Database) Now() time.Time {
	if d.clock != nil {
		return d.clock()
	}
	return time.Now()
}

// OrNotFound returns notFound for pgx.ErrNoRows, and any other error as postgres.Err does.
func OrNotFound(err, notFound error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound
	}
	return postgres.Err(err)
}

// ErrContradiction means that a bug, or a manual write, has left rows that contradict each other.
var ErrContradiction = errors.New("the database contradicts itself")

// ExpectRows returns err, or ErrContradiction when a write has changed another number of rows than
// were locked. The transaction must then not be committed.
func ExpectRows(changed int64, want int, what string, err error) error {
	if err != nil {
		return err
	}
	if changed != int64(want) {
		return fmt.Errorf("%d %s changed, not %d: %w", changed, what, want, ErrContradiction)
	}
	return nil
}

// OrMaxUUID returns before, or the greatest UUID for the zero one, so that a list begins with its
// newest element.
func OrMaxUUID(before uuid.UUID) uuid.UUID {
	if before == uuid.Nil {
		return uuid.Max
	}
	return before
}

// User is a user of one event, or of all events of its series, unless that is empty.
type User struct{ EventID, SeriesID, UserID string }

// LockKey returns the key of the advisory lock that must be held to count or change the user's
// places.
func (u User) LockKey() int64 {
	if u.SeriesID != "" {
		return lockKey("series\x00" + u.SeriesID + "\x00" + u.UserID)
	}
	return lockKey("user\x00" + u.EventID + "\x00" + u.UserID)
}

func lockKey(of string) int64 {
	sum := sha256.Sum256([]byte(of))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}

// LockKeys returns the lock keys of users in the order in which all transactions take them.
func LockKeys(users []User) []int64 {
	keys := make([]int64, len(users))
	for i, u := range users {
		keys[i] = u.LockKey()
	}
	return inOrder(keys)
}

// PaymentLockKeys returns the keys of the advisory locks of payments, in the order in which all
// transactions take them, before those of users. A payment's lock keeps its confirmation and its
// refund by hand apart, of which neither may have left a row yet.
func PaymentLockKeys(payments []uuid.UUID) []int64 {
	keys := make([]int64, len(payments))
	for i, id := range payments {
		keys[i] = lockKey("payment\x00" + id.String())
	}
	return inOrder(keys)
}

func inOrder(keys []int64) []int64 {
	slices.Sort(keys)
	return slices.Compact(keys)
}
