package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/postgres/db"
)

// MinutesKept is how long figures are kept by minute. Quarters of an hour are kept for ever.
const MinutesKept = 90 * 24 * time.Hour

const (
	// minutesMargin is how much longer minutes are kept than they are read, since the clocks of
	// replicas differ.
	minutesMargin = time.Hour

	quarter     = 15 * time.Minute
	deleteEvery = 10 * time.Minute
	deleteBatch = 2000
)

// DeleteMinutes deletes the minutes before a time, deleteBatch rows per statement. Several replicas
// may call it at the same time.
func (s *Store) DeleteMinutes(ctx context.Context, before time.Time) (total int64, err error) {
	total, err = loop.Batches(ctx, deleteBatch, func(ctx context.Context, size int32) (int64, error) {
		return s.q.DeleteMinutes(ctx, s.pool, db.DeleteMinutesParams{Before: before, Max: size})
	})
	if err != nil {
		err = postgres.Err(fmt.Errorf("delete minutes: %w", err))
	}
	return total, err
}

// MinutesPruner returns the worker that deletes minutes older than MinutesKept, every deleteEvery.
func (s *Store) MinutesPruner(now func() time.Time, log *slog.Logger) func(context.Context) error {
	return loop.Pruner(deleteEvery, log, "old minutes not deleted", func(ctx context.Context) error {
		_, err := s.DeleteMinutes(ctx, now().Add(-MinutesKept-minutesMargin))
		return err
	})
}

// minutesSince returns from when on a series is read by minute. Before that it is read by quarter
// of an hour: where minutes may be deleted, and where each step consists of whole quarters.
func minutesSince(q figures.SeriesQuery, now time.Time) time.Time {
	since := now.Add(-MinutesKept).Truncate(quarter)
	if last := q.To.Truncate(quarter); q.Step%quarter == 0 && q.From.Equal(q.From.Truncate(quarter)) && last.After(since) {
		return last
	}
	return since
}
