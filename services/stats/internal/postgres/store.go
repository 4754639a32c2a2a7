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
	now  *time.Time // nil: the database's clock; tests set it
}

var _ figures.Store = (*Store)(nil)

// NewStore makes a Store on the pool.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool: pool, q: db.New()} }

// Apply adds a batch to the figures and records the ids of its events and its offset, all in one
// transaction, so that each event counts exactly once in spite of crashes.
func (s *Store) Apply(ctx context.Context, b figures.Batch) error {
	err := postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		ids, err := s.possiblyUncounted(ctx, tx, b)
		if err != nil {
			return err
		}
		fresh, err := inbox.ClaimAll(ctx, tx, ids, figures.Group)
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
		rest := postgres.Defer(tx)
		if err := s.addDelta(ctx, rest, &delta); err != nil {
			return err
		}
		err = s.q.SaveOffset(ctx, rest, db.SaveOffsetParams{Topic: b.Topic, Partition: b.Partition, NextOffset: b.Next})
		if err == nil {
			err = rest.Send(ctx)
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

func (s *Store) addDelta(ctx context.Context, tx db.DBTX, d *figures.Delta) error {
	for _, add := range []func(context.Context, db.DBTX, *figures.Delta) error{s.addCounts, s.addRevenue, s.addRewards, s.addRequests} {
		if err := add(ctx, tx, d); err != nil {
			return err
		}
	}
	return nil
}

// possiblyUncounted returns the ids of a batch's events, without the old events below the saved
// offset. Those are counted already; a consumer group that lost its offsets reads them again, and
// the inbox may have deleted their ids. Only the inbox tells whether a younger event is counted:
// its offset proves nothing, since a recreated topic has other events at the same offsets.
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

// claimRedriven records the redriven events in fresh as counted, and removes from fresh those that
// were redriven and counted before, however long ago.
func (s *Store) claimRedriven(ctx context.Context, tx pgx.Tx, redriven []string, fresh map[string]bool) error {
	redriven = slices.DeleteFunc(slices.Clone(redriven), func(id string) bool { return !fresh[id] })
	if len(redriven) == 0 {
		return nil
	}
	first, err := s.q.ClaimRedriven(ctx, tx, redriven)
	if err != nil {
		return fmt.Errorf("claim redriven events: %w", err)
	}
	for _, id := range redriven {
		if !slices.Contains(first, id) {
			delete(fresh, id)
		}
	}
	return nil
}

// Offsets returns, by partition of a topic, the offset after the last record that was stored.
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

// SaveOffset saves the offset after the last stored record of a partition. It never lowers an offset.
func (s *Store) SaveOffset(ctx context.Context, topic string, partition int32, next int64) error {
	if topic == events.Audit {
		return postgres.Err(s.q.SaveActOffset(ctx, s.pool, db.SaveActOffsetParams{Partition: partition, NextOffset: next}))
	}
	return postgres.Err(s.q.SaveOffset(ctx, s.pool, db.SaveOffsetParams{Topic: topic, Partition: partition, NextOffset: next}))
}

func (s *Store) addCounts(ctx context.Context, tx db.DBTX, d *figures.Delta) error {
	days := figures.Days(d.Counts)
	if len(days) == 0 {
		return nil
	}
	p := db.AddCountsParams{Now: s.now}
	p.EventIds, p.Days = keyColumns(days)
	for _, day := range days {
		c := d.Counts[day]
		p.Created = append(p.Created, c.Created)
		p.Confirmed = append(p.Confirmed, c.Confirmed)
		p.Cancelled = append(p.Cancelled, c.Cancelled)
		p.Expired = append(p.Expired, c.Expired)
		p.Rejected = append(p.Rejected, c.Rejected)
		p.SeatsSold = append(p.SeatsSold, c.SeatsSold)
	}
	return s.q.AddCounts(ctx, tx, p)
}

// keyColumns returns the event ids and the dates of days as two arrays, for one statement on many rows.
func keyColumns(days []figures.Day) (eventIDs []string, dates []time.Time) {
	for _, day := range days {
		eventIDs = append(eventIDs, day.EventID)
		dates = append(dates, day.Date)
	}
	return eventIDs, dates
}

func (s *Store) addRevenue(ctx context.Context, tx db.DBTX, d *figures.Delta) error {
	keys := figures.RevenueKeys(d.Revenue)
	if len(keys) == 0 {
		return nil
	}
	var p db.AddRevenueParams
	for _, m := range keys {
		r := d.Revenue[m]
		p.EventIds = append(p.EventIds, m.EventID)
		p.Days = append(p.Days, m.Date)
		p.Currencies = append(p.Currencies, m.Currency)
		p.Confirmed = append(p.Confirmed, r.Confirmed)
		p.Refunded = append(p.Refunded, r.Refunded)
		p.Payments = append(p.Payments, r.Payments)
		p.Refunds = append(p.Refunds, r.Refunds)
	}
	return s.q.AddRevenue(ctx, tx, p)
}

func (s *Store) addRewards(ctx context.Context, tx db.DBTX, d *figures.Delta) error {
	days := figures.Days(d.Rewards)
	if len(days) == 0 {
		return nil
	}
	p := db.AddRewardsParams{Now: s.now}
	p.EventIds, p.Days = keyColumns(days)
	for _, day := range days {
		r := d.Rewards[day]
		p.Paid = append(p.Paid, r.Paid)
		p.Failed = append(p.Failed, r.Failed)
		p.Cancelled = append(p.Cancelled, r.Cancelled)
		p.PointsPaid = append(p.PointsPaid, r.PointsPaid)
	}
	return s.q.AddRewards(ctx, tx, p)
}

func (s *Store) addRequests(ctx context.Context, tx db.DBTX, d *figures.Delta) error {
	days := figures.Days(d.Requests)
	if len(days) == 0 {
		return nil
	}
	p := db.AddRequestsParams{Now: s.now}
	p.EventIds, p.Days = keyColumns(days)
	for _, day := range days {
		r := d.Requests[day]
		p.Succeeded = append(p.Succeeded, r.Succeeded)
		p.Rejected = append(p.Rejected, r.Rejected)
		p.Failed = append(p.Failed, r.Failed)
	}
	return s.q.AddRequests(ctx, tx, p)
}

func (s *Store) EventCounts(ctx context.Context, eventID string) (figures.EventCounts, error) {
	row, err := s.q.EventCounts(ctx, s.pool, eventID)
	if err != nil {
		return figures.EventCounts{}, postgres.Err(fmt.Errorf("event counts: %w", err))
	}
	return figures.EventCounts{
		Counts: figures.Counts{
			Created: row.Created, Confirmed: row.Confirmed, Cancelled: row.Cancelled,
			Expired: row.Expired, Rejected: row.Rejected, SeatsSold: row.SeatsSold,
		},
		UpdatedAt: zeroIfEpoch(row.UpdatedAt),
	}, nil
}

func (s *Store) EventRewards(ctx context.Context, eventID string) (figures.EventRewards, error) {
	row, err := s.q.EventRewards(ctx, s.pool, eventID)
	if err != nil {
		return figures.EventRewards{}, postgres.Err(fmt.Errorf("event rewards: %w", err))
	}
	return figures.EventRewards{
		RewardCounts: figures.RewardCounts{Paid: row.Paid, Failed: row.Failed, Cancelled: row.Cancelled, PointsPaid: row.PointsPaid},
		UpdatedAt:    zeroIfEpoch(row.UpdatedAt),
	}, nil
}

func (s *Store) EventRequests(ctx context.Context, eventID string) (figures.EventRequests, error) {
	row, err := s.q.EventRequests(ctx, s.pool, eventID)
	if err != nil {
		return figures.EventRequests{}, postgres.Err(fmt.Errorf("event requests: %w", err))
	}
	return figures.EventRequests{
		RequestCounts: figures.RequestCounts{Succeeded: row.Succeeded, Rejected: row.Rejected, Failed: row.Failed},
		UpdatedAt:     zeroIfEpoch(row.UpdatedAt),
	}, nil
}

// zeroIfEpoch returns t in UTC, but the zero time for 1970, which the queries return if there is no
// row.
func zeroIfEpoch(t time.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t.In(time.UTC)
}

func (s *Store) EventRevenue(ctx context.Context, eventID string) ([]figures.EventRevenue, error) {
	rows, err := s.q.EventRevenue(ctx, s.pool, eventID)
	if err != nil {
		return nil, postgres.Err(fmt.Errorf("event revenue: %w", err))
	}
	out := make([]figures.EventRevenue, len(rows))
	for i, r := range rows {
		out[i] = figures.EventRevenue{Currency: r.Currency, Revenue: figures.Revenue{
			Confirmed: r.Confirmed, Refunded: r.Refunded, Payments: r.Payments, Refunds: r.Refunds,
		}}
	}
	return out, nil
}
