package payout

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
)

// Canceller cancels the allocations of campaigns that are marked.
type Canceller interface {
	// CancelMarked works in chunks; after a failure the next call continues.
	CancelMarked(ctx context.Context) error
}

const cancelEvery = time.Second

// Cancellations returns the worker that follows the marks of cancelled campaigns.
func Cancellations(c Canceller, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, cancelEvery, func(ctx context.Context) {
			if err := c.CancelMarked(ctx); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "campaigns not cancelled yet, trying again", "error", err)
			}
		})
	}
}
