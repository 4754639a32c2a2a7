package payout

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
)

// Canceller cancels the allocations of campaigns that are marked as cancelled.
type Canceller interface {
	// CancelMarked works in chunks; after a failure the next call continues.
	CancelMarked(ctx context.Context) error
}

// Retrier retries the failed allocations of campaigns that are marked for a retry.
type Retrier interface {
	// RetryMarked works in chunks; after a failure the next call continues.
	RetryMarked(ctx context.Context) error
}

// markedEvery is the pause between two searches for marked campaigns.
const markedEvery = time.Second

// CancelWorker returns the worker that cancels the allocations of campaigns marked as cancelled.
func CancelWorker(c Canceller, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, markedEvery, log, "campaigns not cancelled yet, trying again", c.CancelMarked)
	}
}

// RetryWorker returns the worker that retries the failed allocations of campaigns marked for a retry.
func RetryWorker(r Retrier, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, markedEvery, log, "campaigns not retried yet, trying again", r.RetryMarked)
	}
}
