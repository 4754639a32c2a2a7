// Package postgres stores the figures and the acts of operators in PostgreSQL.
package postgres

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
	"urr.guru/proto/events"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/postgres/db"
	"urr.guru/services/stats/internal/postgres/schema"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations create all tables of the service's database.
var Migrations = append([]postgres.MigrationSet{{Name: "stats", FS: files}}, schema.Migrations...)

// SearchPath returns the option by which database sessions find the tables of both schemas by name.
func SearchPath() postgres.Option { return postgres.Setting("search_path", schema.Name+",public") }

// Store reads and writes the figures and the acts.
type Store struct {
	pool *pgxpool.Pool
	q    *db.Queries
	now  *time.Time // nil: the present, by the database's clock in its statements; tests set it
	// shadow is true if the figures are a rebuild's, which nobody reads yet.
	shadow bool
}

var _ figures.Store = (*Store)(nil)

// NewStore makes a Store on the pool.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool: pool, q: db.New()} }

// Apply adds a batch to the figures and records the ids of its events and its offset, all in one
// transaction, so that each event counts exactly once in spite of crashes.
func (s *Store) Apply(ctx context.Context, b figures.Batch) error {
	err := postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lockShared(ctx, tx); err != nil {
			return err
		}
		fresh, err := s.claim(ctx, tx, b)
		if err != nil {
			return err
		}
		if err := s.claimRedriven(ctx, tx, b.Redriven, fresh); err != nil {
			return err
		}
		delta, err := b.Delta(fresh)
		if err != nil {
			return err
		}
		deferred := postgres.Defer(tx)
		if err := s.add(ctx, deferred, delta); err != nil {
			return err
		}
		err = s.q.SaveOffset(ctx, deferred, db.SaveOffsetParams{Topic: b.Topic, Partition: b.Partition, NextOffset: b.Next})
		if err == nil {
			err = deferred.Send(ctx)
		}
		if err != nil {
			return fmt.Errorf("add figures: %w", err)
		}
		return failpoint.Err("stats.count.before_commit")
	})
	if err == nil {
		failpoint.Hit("stats.count.after_commit")
	}
	return err
}

// add adds a delta to the figures by minute and by quarter of an hour, and to the totals.
func (s *Store) add(ctx context.Context, tx db.DBTX, d figures.Delta) error {
	if len(d) == 0 {
		return nil
	}
	var p db.AddMinutesParams
	for _, k := range d.Keys() {
		p.EventIds, p.At, p.Figures = append(p.EventIds, k.EventID), append(p.At, k.Minute), append(p.Figures, string(k.Figure))
		p.Currencies, p.Amounts, p.Counts = append(p.Currencies, k.Currency), append(p.Amounts, d[k].Amount), append(p.Counts, d[k].Times)
	}
	if err := s.q.AddMinutes(ctx, tx, p); err != nil {
		return err
	}
	if err := s.q.AddQuarters(ctx, tx, db.AddQuartersParams(p)); err != nil {
		return err
	}
	return s.q.AddTotals(ctx, tx, db.AddTotalsParams{
		Now: s.now, EventIds: p.EventIds, At: p.At, Figures: p.Figures, Currencies: p.Currencies, Amounts: p.Amounts, Counts: p.Counts,
	})
}

// claim records the events of a batch in the inbox, and returns those that are not counted yet. A
// rebuild records them as of their publication, so that the inbox deletes their ids in time.
func (s *Store) claim(ctx context.Context, tx pgx.Tx, b figures.Batch) (map[string]bool, error) {
	if s.shadow {
		return inbox.ClaimAllAt(ctx, tx, b.EventIDs, b.Times, figures.Group)
	}
	ids, err := s.possiblyUncounted(ctx, tx, b)
	if err != nil {
		return nil, err
	}
	return inbox.ClaimAll(ctx, tx, ids, figures.Group)
}

// possiblyUncounted returns the ids of a batch's events, except old events below the saved offset.
// These are counted already, but are read again if the consumer group loses its offsets, and the
// inbox may have deleted their ids. For a younger event only the inbox decides, and not its offset,
// since a recreated topic has other events at the same offsets.
func (s *Store) possiblyUncounted(ctx context.Context, tx pgx.Tx, b figures.Batch) ([]string, error) {
	if len(b.Old) == 0 {
		return b.EventIDs, nil
	}
	next, err := s.q.NextOffset(ctx, tx, db.NextOffsetParams{Topic: b.Topic, Partition: b.Partition})
	if err != nil {
		return nil, fmt.Errorf("next offset: %w", err)
	}
	ids := make([]string, 0, len(b.EventIDs))
	for _, id := range b.EventIDs {
		if at, old := b.Old[id]; !old || at >= next {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// claimRedriven records that the redriven dead letters in fresh are counted. It removes from fresh
// those that were redriven and counted before, however long ago.
func (s *Store) claimRedriven(ctx context.Context, tx pgx.Tx, redriven []string, fresh map[string]bool) error {
	redriven = slices.DeleteFunc(slices.Clone(redriven), func(id string) bool { return !fresh[id] })
	if len(redriven) == 0 {
		return nil
	}
	firstTime, err := s.q.ClaimRedriven(ctx, tx, redriven)
	if err != nil {
		return fmt.Errorf("claim redriven events: %w", err)
	}
	for _, id := range redriven {
		if !slices.Contains(firstTime, id) {
			delete(fresh, id)
		}
	}
	return nil
}

// Offsets returns, for each partition of a topic, the offset after the last stored record.
func (s *Store) Offsets(ctx context.Context, topic string) (map[int32]int64, error) {
	next := make(map[int32]int64)
	if topic == events.Audit {
		rows, err := s.q.ActOffsets(ctx, s.pool)
		for _, r := range rows {
			next[r.Partition] = r.NextOffset
		}
		return next, postgres.Err(err)
	}
	rows, err := s.q.Offsets(ctx, s.pool, topic)
	for _, r := range rows {
		next[r.Partition] = r.NextOffset
	}
	return next, postgres.Err(err)
}

// SaveOffset saves the offset after a partition's last stored record. It never lowers an offset.
func (s *Store) SaveOffset(ctx context.Context, topic string, partition int32, next int64) error {
	if topic == events.Audit {
		return postgres.Err(s.q.SaveActOffset(ctx, s.pool, db.SaveActOffsetParams{Partition: partition, NextOffset: next}))
	}
	return postgres.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.lockShared(ctx, tx); err != nil {
			return err
		}
		return s.q.SaveOffset(ctx, tx, db.SaveOffsetParams{Topic: topic, Partition: partition, NextOffset: next})
	})
}
