package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Execer executes statements that return no rows: a pgx.Tx or a Deferred.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Deferred collects statements of which only the error matters, and sends them together, so that a
// transaction waits only once for all of them.
//
//	d := postgres.Defer(tx)
//	err := db.New(d).AddEntry(ctx, …)
//	err = outbox.Insert(ctx, d, …)
//	err = d.Send(ctx)
type Deferred struct {
	tx    pgx.Tx
	batch pgx.Batch
}

// Defer makes a Deferred without statements for a transaction.
func Defer(tx pgx.Tx) *Deferred { return &Deferred{tx: tx} }

// Exec adds a statement, which Send executes. The tag is always empty: do not use Deferred where
// the number of changed rows matters.
func (d *Deferred) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	d.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

var errDeferred = errors.New("a deferred statement has no rows")

// Query always fails: a deferred statement cannot return rows.
func (*Deferred) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errDeferred }
func (*Deferred) QueryRow(context.Context, string, ...any) pgx.Row        { return failingRow{} }

type failingRow struct{}

func (failingRow) Scan(...any) error { return errDeferred }

// Send executes the statements in their order. If one fails, Send returns its error and does not
// execute the statements after it.
func (d *Deferred) Send(ctx context.Context) error {
	if d.batch.Len() == 0 {
		return nil
	}
	batch := d.batch
	d.batch = pgx.Batch{}
	return d.tx.SendBatch(ctx, &batch).Close()
}
