package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
	"urr.guru/services/stats/internal/postgres/db"
)

// MinutesKept is how long figures are kept by minute. Later they are kept by quarter of an hour.
const MinutesKept = 90 * 24 * time.Hour

const (
	foldEvery = 10 * time.Minute
	foldBatch = 2000
)

// FoldMinutes merges the minutes before a time into quarters of an hour, foldBatch rows per
// statement. Several replicas may call it at the same time.
func (s *Store) FoldMinutes(ctx context.Context, before time.Time) (total int64, err error) {
	total, err = loop.Batches(ctx, foldBatch, func(ctx context.Context, size int32) (int64, error) {
		return s.q.FoldMinutes(ctx, s.pool, db.FoldMinutesParams{Before: before, Max: size})
	})
	if err != nil {
		err = postgres.Err(fmt.Errorf("fold minutes: %w", err))
	}
	return total, err
}

// MinutesFolder returns the worker that merges minutes older than MinutesKept, every foldEvery.
func (s *Store) MinutesFolder(now func() time.Time, log *slog.Logger) func(context.Context) error {
	return loop.Pruner(foldEvery, log, "old minutes not folded", func(ctx context.Context) error {
		_, err := s.FoldMinutes(ctx, now().Add(-MinutesKept))
		return err
	})
}
