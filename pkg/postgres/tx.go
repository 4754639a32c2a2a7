package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rollbackTimeout bounds the rollback of a transaction whose own context has ended.
const rollbackTimeout = 2 * time.Second

// InTx runs fn in one transaction (READ COMMITTED) and commits it when fn returns nil. The error is fn's own, or the commit's: after a
// commit error of kind Unavailable, Deadline or Canceled nobody knows whether it took effect, so what fn does must be repeatable. Errors
// pass Err.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return Err(err)
	}
	// Rolls back after an error and after a panic; after a commit it does nothing.
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(rctx)
	}()
	if err := fn(ctx, tx); err != nil {
		return Err(err)
	}
	return Err(tx.Commit(ctx))
}

// Retries of InTxRetry.
const (
	maxAttempts = 5
	firstWait   = 5 * time.Millisecond
)

// InTxRetry is InTx, run again (up to 5 times, with jitter) when the server chose the transaction as the victim of a serialization
// conflict or a deadlock. fn must not have effects outside the transaction.
func InTxRetry(ctx context.Context, pool *pgxpool.Pool, fn func(ctx context.Context, tx pgx.Tx) error) error {
	wait := firstWait
	for attempt := 1; ; attempt++ {
		err := InTx(ctx, pool, fn)
		if err == nil || attempt == maxAttempts || !retryable(err) {
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

// retryable reports whether the same transaction may well succeed when run again: serialization failure or deadlock.
func retryable(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "40001" || pe.Code == "40P01")
}
