// Package notices stores notices, the webhooks that get them, and their deliveries.
package notices

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

const (
	// keepDays is for how many days notices are kept, and can be sent again.
	keepDays   = 30
	pruneEvery = 10 * time.Minute
	pruneBatch = 1000
)

// Store stores notices and deliveries.
type Store struct {
	database *postgres.Database
	mails    bool

	orderBatch   int32
	eventsAtOnce int
}

// NewStore makes a Store on the database d. mails is whether e-mails are sent.
func NewStore(d *postgres.Database, mails bool) *Store {
	return &Store{database: d, mails: mails, orderBatch: orderBatch, eventsAtOnce: eventsAtOnce}
}

// Insert inserts notices in the transaction of the change that they report. The rows of their
// entities must be locked or new.
func Insert(ctx context.Context, q *postgres.Queries, list []notice.New) error {
	if len(list) == 0 {
		return nil
	}
	arg := db.InsertNoticesParams{Now: q.AsOf}
	for _, n := range list {
		data, err := json.Marshal(n.Data)
		if err != nil {
			return err
		}
		arg.NoticeIds, arg.Types = append(arg.NoticeIds, uuid.Must(uuid.NewV7())), append(arg.Types, string(n.Type))
		arg.Entities, arg.EventIds, arg.Data = append(arg.Entities, n.Entity), append(arg.EventIds, n.EventID), append(arg.Data, string(data))
	}
	return q.InsertNotices(ctx, arg)
}

// Claim leases up to max due deliveries to one receiver (lane). more reports that more may be due.
func (s *Store) Claim(ctx context.Context, lane uuid.UUID, max int, lease time.Duration) (list []notice.Delivery, more bool, err error) {
	q := s.database.Queries()
	rows, err := q.ClaimDeliveries(ctx, db.ClaimDeliveriesParams{
		Lane: lane, Max: int32(max), LeaseSeconds: lease.Seconds(), Now: q.AsOf, //nolint:gosec // a small number
	})
	for _, r := range rows {
		if r.Mine {
			list = append(list, notice.Delivery{
				Notice: notice.Notice{
					ID: r.NoticeID, Type: notice.Type(r.Type), Entity: r.Entity, EventID: r.EventID, Data: r.Data, CreatedAt: r.CreatedAt,
				},
				UserID: r.UserID, Email: r.Email, Language: r.Language, Seq: r.Seq, Lane: lane, Attempt: int(r.Attempts), Failures: int(r.Failures), TriedFrom: r.TriedFrom,
			})
		}
	}
	return list, len(rows) == max, pkgpostgres.Err(err)
}

// End ends a delivery, and makes the next one about the same entity due. It does nothing if another
// attempt of the delivery has begun, whose outcome counts instead.
func (s *Store) End(ctx context.Context, d *notice.Delivery, state notice.State, o notice.Outcome) error {
	return s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		n, err := tx.EndDelivery(ctx, db.EndDeliveryParams{
			Seq: d.Seq, Attempts: int32(d.Attempt), State: string(state), LastStatus: int32(o.Status), LastError: o.Error, Now: tx.AsOf, //nolint:gosec // small numbers
		})
		if err != nil || n == 0 {
			return err
		}
		return tx.WakeNext(ctx, db.WakeNextParams{Lane: d.Lane, Entity: d.Entity, Now: tx.AsOf})
	})
}

// Retry schedules the next attempt of a delivery, unless another attempt has begun already.
func (s *Store) Retry(ctx context.Context, d *notice.Delivery, o notice.Outcome, after time.Duration) error {
	q := s.database.Queries()
	_, err := q.RetryDelivery(ctx, db.RetryDeliveryParams{
		Seq: d.Seq, Attempts: int32(d.Attempt), LastStatus: int32(o.Status), LastError: o.Error, AfterSeconds: after.Seconds(), Now: q.AsOf, //nolint:gosec // small numbers
	})
	return pkgpostgres.Err(err)
}

// Counts has the numbers of pending and of failed deliveries to one receiver.
type Counts struct {
	Pending, Failed int64
	// Oldest is how long the oldest pending delivery has been tried.
	Oldest time.Duration
}

// Count counts the deliveries to one receiver (lane).
func (s *Store) Count(ctx context.Context, lane notice.Lane) (Counts, error) {
	q := s.database.Queries()
	r, err := q.CountDeliveries(ctx, db.CountDeliveriesParams{Lane: lane.ID, Now: q.AsOf})
	return Counts{Pending: r.Pending, Failed: r.Failed, Oldest: time.Duration(max(0, r.OldestSeconds) * float64(time.Second))}, pkgpostgres.Err(err)
}

// OldestToWalk returns how long the oldest notice without deliveries has waited for them.
func (s *Store) OldestToWalk(ctx context.Context) (time.Duration, error) {
	q := s.database.Queries()
	seconds, err := q.OldestToWalk(ctx, q.AsOf)
	return time.Duration(max(0, seconds) * float64(time.Second)), pkgpostgres.Err(err)
}

// Pruner returns a worker that deletes notices that are older than 30 days, with their deliveries.
func (s *Store) Pruner(log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "old notices not deleted", func(ctx context.Context) error {
		_, err := s.Prune(ctx)
		return err
	})
}

// Prune deletes old notices, and returns their number.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	q := s.database.Queries()
	n, err := loop.Batches(ctx, pruneBatch, func(ctx context.Context, size int32) (int64, error) {
		return q.PruneNotices(ctx, db.PruneNoticesParams{KeepDays: keepDays, Max: size, Now: q.AsOf})
	})
	return n, pkgpostgres.Err(err)
}
