package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
	"urr.guru/services/stats/internal/audit"
	"urr.guru/services/stats/internal/postgres/db"
)

var _ audit.Store = (*Store)(nil)

// Keep is idempotent for acts and outcomes of any age, so that the offset need not be saved in the
// same transaction.
func (s *Store) Keep(ctx context.Context, acts []audit.Act, ended []audit.Ended) (other int64, err error) {
	if len(acts) > 0 {
		err = s.keepActs(ctx, acts)
	}
	if err == nil && len(ended) > 0 {
		other, err = s.keepOutcomes(ctx, ended)
	}
	return other, postgres.Err(err)
}

func (s *Store) keepActs(ctx context.Context, acts []audit.Act) error {
	var p db.KeepActsParams
	for i := range acts {
		a := &acts[i]
		p.ActIds = append(p.ActIds, a.ID)
		p.OccurredAt = append(p.OccurredAt, a.At)
		p.UserIds = append(p.UserIds, a.UserID)
		p.Addresses = append(p.Addresses, a.Address)
		p.Methods = append(p.Methods, a.Method)
		p.Routes = append(p.Routes, a.Route)
		p.Paths = append(p.Paths, a.Path)
		p.EventIds = append(p.EventIds, a.EventID)
		p.RequestIds = append(p.RequestIds, a.RequestID)
		p.Bodies = append(p.Bodies, a.Body)
		p.BodySha256 = append(p.BodySha256, a.BodySHA256)
	}
	return s.q.KeepActs(ctx, s.pool, p)
}

func (s *Store) keepOutcomes(ctx context.Context, ended []audit.Ended) (other int64, err error) {
	var p db.KeepOutcomesParams
	for i := range ended {
		o := &ended[i]
		entries := cmp.Or(o.Entries, &audit.EntryCounts{Total: -1, Added: -1, Removed: -1})
		p.ActIds = append(p.ActIds, o.ActID)
		p.EventIds = append(p.EventIds, o.EventID)
		p.BodySha256 = append(p.BodySha256, o.BodySHA256)
		p.Statuses = append(p.Statuses, int32(o.Status)) //nolint:gosec // an HTTP status
		p.Codes = append(p.Codes, o.Code)
		p.EndedAt = append(p.EndedAt, o.At)
		p.Total = append(p.Total, entries.Total)
		p.Added = append(p.Added, entries.Added)
		p.Removed = append(p.Removed, entries.Removed)
	}
	if err := s.q.KeepOutcomes(ctx, s.pool, p); err != nil {
		return 0, err
	}
	return s.q.CountOtherOutcomes(ctx, s.pool, db.CountOtherOutcomesParams(p))
}

// List returns at most f.Limit acts that match the filter, newest first.
func (s *Store) List(ctx context.Context, f audit.Filter) ([]audit.Act, error) {
	if f.To.IsZero() {
		f.To = audit.Latest
	}
	if f.Before.At.IsZero() {
		f.Before = audit.Position{At: audit.Latest, ID: uuid.Max}
	}
	rows, err := s.q.ListActs(ctx, s.pool, db.ListActsParams{
		EventID: f.EventID, UserID: f.UserID, Since: f.From, Until: f.To, BeforeAt: f.Before.At, BeforeID: f.Before.ID, Count: int32(f.Limit), //nolint:gosec // ≤ 1000
	})
	if err != nil {
		return nil, postgres.Err(fmt.Errorf("list acts: %w", err))
	}
	acts := make([]audit.Act, len(rows))
	for i, r := range rows {
		acts[i] = audit.Act{
			ID: r.ActID, At: r.OccurredAt.UTC(), UserID: r.UserID, Address: r.Address, Method: r.Method, Route: r.Route, Path: r.Path,
			EventID: r.EventID, RequestID: r.RequestID, Body: r.Body, BodySHA256: r.BodySha256,
		}
		if r.EndedAt != nil {
			acts[i].Outcome = &audit.Outcome{Status: int(r.Status), Code: r.Code, At: r.EndedAt.UTC()}
		}
		if r.Total >= 0 {
			acts[i].Outcome.Entries = &audit.EntryCounts{Total: r.Total, Added: r.Added, Removed: r.Removed}
		}
	}
	return acts, nil
}

const (
	pruneEvery = 10 * time.Minute
	pruneBatch = 5000
)

// PruneActs deletes the acts before a time, pruneBatch per statement, and returns how many it has
// deleted. Several replicas may call it at the same time.
func (s *Store) PruneActs(ctx context.Context, before time.Time) (total int64, err error) {
	total, err = loop.Batches(ctx, pruneBatch, func(ctx context.Context, size int32) (int64, error) {
		return s.q.PruneActs(ctx, s.pool, db.PruneActsParams{Before: before, Count: size})
	})
	if err != nil {
		err = postgres.Err(fmt.Errorf("prune acts: %w", err))
	}
	return total, err
}

// ActsPruner returns the worker that deletes acts older than retention every pruneEvery.
func (s *Store) ActsPruner(retention time.Duration, now func() time.Time, log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "old acts not deleted", func(ctx context.Context) error {
		_, err := s.PruneActs(ctx, now().Add(-retention))
		return err
	})
}
