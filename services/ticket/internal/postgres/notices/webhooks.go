package notices

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/notice"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

var (
	_ notice.WebhookStore = (*Store)(nil)
	_ notice.Queue        = (*Store)(nil)
)

func (s *Store) PutWebhook(ctx context.Context, w notice.Webhook, errMissing error) (put notice.Webhook, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		if err := tx.LockWebhooks(ctx); err != nil { // so that concurrent calls cannot exceed MaxWebhooks
			return err
		}
		row, err := tx.FindWebhook(ctx, w.Name)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			row, err = insertWebhook(ctx, tx, w, errMissing)
		case err == nil:
			if w.Secret == "" {
				w.Secret = row.Secret
			}
			row, err = tx.UpdateWebhook(ctx, db.UpdateWebhookParams{
				Name: w.Name, Url: w.URL, Types: w.Types, Secret: w.Secret, OverlapSeconds: int32(notice.SecretOverlap / time.Second), Now: tx.AsOf,
			})
		}
		put = toWebhook(row)
		return err
	})
	return put, err
}

func insertWebhook(ctx context.Context, tx *postgres.Tx, w notice.Webhook, errMissing error) (row db.Webhook, err error) {
	hooks, err := tx.ListWebhooks(ctx)
	switch {
	case err != nil:
		return row, err
	case w.Secret == "":
		return row, errMissing
	case len(hooks) >= notice.MaxWebhooks:
		return row, notice.ErrTooManyWebhooks
	}
	return tx.InsertWebhook(ctx, db.InsertWebhookParams{
		WebhookID: uuid.Must(uuid.NewV7()), Name: w.Name, Url: w.URL, Types: w.Types, Secret: w.Secret, Now: tx.AsOf,
	})
}

func (s *Store) ListWebhooks(ctx context.Context) ([]notice.Webhook, error) {
	rows, err := s.database.Queries().ListWebhooks(ctx)
	list := make([]notice.Webhook, len(rows))
	for i, r := range rows {
		list[i] = toWebhook(r)
	}
	return list, pkgpostgres.Err(err)
}

func toWebhook(r db.Webhook) notice.Webhook {
	w := notice.Webhook{
		ID: r.WebhookID, Name: r.Name, URL: r.Url, Types: r.Types, Secret: r.Secret, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.FormerSecret != nil {
		w.FormerSecret, w.FormerUntil = *r.FormerSecret, r.FormerUntil.UTC()
	}
	return w
}

func (s *Store) DeleteWebhook(ctx context.Context, name string) error {
	return pkgpostgres.Err(s.database.Queries().DeleteWebhook(ctx, name))
}

func (s *Store) Log(ctx context.Context, name string, limit int, before uuid.UUID) ([]notice.LogEntry, error) {
	q := s.database.ReadQueries()
	w, err := q.FindWebhook(ctx, name)
	if err != nil {
		return nil, postgres.OrNotFound(err, notice.ErrWebhookNotFound)
	}
	rows, err := q.ListDeliveries(ctx, db.ListDeliveriesParams{Lane: w.WebhookID, Before: postgres.OrMaxUUID(before), Max: int32(limit)}) //nolint:gosec // at most 101
	list := make([]notice.LogEntry, len(rows))
	for i, r := range rows {
		list[i] = notice.LogEntry{
			NoticeID: r.NoticeID, Type: notice.Type(r.Type), Entity: r.Entity, State: notice.State(r.State), Attempts: int(r.Attempts),
			Last: notice.Outcome{Status: int(r.LastStatus), Error: r.LastError}, CreatedAt: r.CreatedAt.UTC(),
		}
		if r.DeliveredAt != nil {
			list[i].DeliveredAt = r.DeliveredAt.UTC()
		}
		if list[i].State == notice.Pending {
			list[i].NextAttempt = r.NextAt.UTC()
		}
	}
	return list, pkgpostgres.Err(err)
}

func (s *Store) Replay(ctx context.Context, name string, r notice.Replay, max int) (queued int, next time.Time, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		queued, next = 0, time.Time{}
		w, err := tx.FindWebhook(ctx, name)
		if err != nil {
			return postgres.OrNotFound(err, notice.ErrWebhookNotFound)
		}
		ids := r.IDs
		if len(ids) > 0 {
			ids, err = tx.NoticesOfIDs(ctx, db.NoticesOfIDsParams{NoticeIds: ids, Types: w.Types})
		} else {
			ids, next, err = noticesSince(ctx, tx, r.Since, w.Types, max)
		}
		if err != nil || len(ids) == 0 {
			return err
		}
		n, err := tx.Requeue(ctx, db.RequeueParams{Lane: w.WebhookID, NoticeIds: ids, Now: tx.AsOf})
		queued = int(n)
		return err
	})
	return queued, next, err
}

// noticesSince returns up to max notices, and the time of the first one that is left out, if any.
func noticesSince(ctx context.Context, tx *postgres.Tx, since time.Time, types []string, max int) (ids []uuid.UUID, next time.Time, err error) {
	rows, err := tx.NoticesSince(ctx, db.NoticesSinceParams{Since: since, Types: types, Max: int32(max) + 1}) //nolint:gosec // a batch
	for i, r := range rows {
		if i == max {
			return ids, r.CreatedAt.UTC(), err
		}
		ids = append(ids, r.NoticeID)
	}
	return ids, next, err
}
