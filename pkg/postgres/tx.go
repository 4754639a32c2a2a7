package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/errs"
)

// rollbackTimeout is the time limit of the rollback after an error; the context may have ended.
const rollbackTimeout = 2 * time.Second

// txTimeout is the time limit of a whole transaction, which may have many statements and pauses.
// The outbox relies on it: no transaction that inserted rows 10 s ago still runs.
const txTimeout = 8 * time.Second

// InTx runs fn in one transaction (READ COMMITTED) of at most 8 s, and commits it when fn returns
// nil. It returns the error of fn or of the commit, converted by Err; a transaction that takes
// longer than 8 s is Unavailable. After a commit error of kind Unavailable, Deadline or Canceled it
// is unknown whether the commit took effect, so fn must be repeatable.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return inTx(ctx, pool, txTimeout, fn)
}

func inTx(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration, fn func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return Err(err)
	}
	caller := ctx
	ctx, cancel := context.WithTimeoutCause(caller, timeout, errTooLong)
	defer cancel()
	// This rolls back after an error and after a panic; after a commit it does nothing.
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(rctx)
	}()
	err = fn(ctx, tx)
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil && caller.Err() == nil && context.Cause(ctx) == errTooLong { //nolint:errorlint // the cause itself
		return errs.ErrUnavailable.Wrap(errors.Join(errTooLong, err))
	}
	return Err(err)
}

var errTooLong = fmt.Errorf("the transaction took longer than it may: %w", context.DeadlineExceeded)

// How many times InTxRetry runs a transaction, at most, and its first pause between two runs.
const (
	maxAttempts = 5
	firstWait   = 5 * time.Millisecond
)

// InTxRetry is like InTx, but repeats the transaction (up to 5 times, after random pauses) when the
// server aborted it for a serialization conflict or a deadlock. fn must not have effects outside
// the transaction.
func InTxRetry(ctx context.Context, pool *pgxpool.Pool, fn func(ctx context.Context, tx pgx.Tx) error) error {
	wait := firstWait
	for attempt := 1; ; attempt++ {
		err := InTx(ctx, pool, fn)
		if err == nil || attempt == maxAttempts || !isRetryable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // jitter
		}
		wait *= 2
	}
}

// isRetryable reports whether the server aborted a transaction for a serialization conflict or a
// deadlock, so that it may succeed when repeated.
func isRetryable(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01")
}
