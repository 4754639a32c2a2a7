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

const cancelEvery = time.Second

// Cancellations returns the worker that cancels the allocations of campaigns marked as cancelled.
func Cancellations(c Canceller, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, cancelEvery, log, "campaigns not cancelled yet, trying again", c.CancelMarked)
	}
}
