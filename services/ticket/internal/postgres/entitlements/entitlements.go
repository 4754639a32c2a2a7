// Package entitlements stores who may buy in a presale: codes, and uploaded lists of users.
package entitlements

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/loop"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

const (
	// pruneEvery is how often replaced lists and old counts of wrong codes are deleted.
	pruneEvery = time.Minute
	// pruneBatch is the most rows that one statement deletes.
	pruneBatch = 10_000
)

var _ entitlement.Store = (*Store)(nil)

// Store stores codes and lists in PostgreSQL.
type Store struct{ database *postgres.Database }

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

func (s *Store) Find(ctx context.Context, eventID string, lists, codeLists []string, users []entitlement.User) (map[string]entitlement.Found, error) {
	arg := db.EntitledUsersParams{EventID: eventID, Lists: lists, CodeLists: codeLists}
	for _, u := range users {
		arg.UserIds, arg.Emails = append(arg.UserIds, u.ID), append(arg.Emails, u.Email)
	}
	rows, err := s.database.ReadQueries().EntitledUsers(ctx, arg)
	found := make(map[string]entitlement.Found, len(rows))
	for _, r := range rows { // a user given with two e-mail addresses has two rows
		f := found[r.UserID]
		found[r.UserID] = entitlement.Found{Listed: f.Listed || r.Listed, UsedCode: f.UsedCode || r.UsedCode}
	}
	return found, pkgpostgres.Err(err)
}

func (s *Store) Record(ctx context.Context, eventID, seriesID, userID string) (event.Record, time.Time, error) {
	r, err := postgres.RecordOf(ctx, s.database.ReadQueries(), postgres.User{EventID: eventID, SeriesID: seriesID, UserID: userID})
	return r, s.database.Now(), pkgpostgres.Err(err)
}

// Pruner returns a worker that deletes replaced lists, uploads that were not finished, and old
// counts of wrong codes.
func (s *Store) Pruner(log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "lists of entitlements not pruned", s.Prune)
}

// Prune deletes once what the worker of Pruner deletes repeatedly.
func (s *Store) Prune(ctx context.Context) error {
	q := s.database.Queries()
	_, err := loop.Batches(ctx, pruneBatch, func(ctx context.Context, size int32) (int64, error) {
		return q.PruneWrongCodes(ctx, db.PruneWrongCodesParams{Now: q.AsOf, Max: size})
	})
	if err != nil {
		return pkgpostgres.Err(err)
	}
	for more := true; more && err == nil; {
		more, err = s.dropPart(ctx)
	}
	return err
}

// dropPart deletes up to pruneBatch entries of a list that no presale uses, and after the last
// entry the list. more is false if there is no such list.
func (s *Store) dropPart(ctx context.Context) (more bool, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		more = false
		id, err := tx.LockListToDrop(ctx, tx.AsOf)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		more = true
		n, err := tx.DropEntries(ctx, db.DropEntriesParams{UploadID: id, Max: pruneBatch})
		if err != nil || n == pruneBatch {
			return err
		}
		return tx.DropList(ctx, id)
	})
	return more, err
}

func (s *Store) checkEvent(ctx context.Context, q *postgres.Queries, eventID string) error {
	_, err := q.FindEvent(ctx, db.FindEventParams{EventID: eventID, Now: q.AsOf})
	return postgres.OrNotFound(err, event.ErrNotFound)
}

func (s *Store) BeginUpload(ctx context.Context, eventID, list string) (uuid.UUID, error) {
	id := uuid.Must(uuid.NewV7())
	q := s.database.Queries()
	if err := s.checkEvent(ctx, q, eventID); err != nil {
		return id, err
	}
	return id, pkgpostgres.Err(q.InsertUpload(ctx, db.InsertUploadParams{UploadID: id, EventID: eventID, List: list, Now: q.AsOf}))
}

func (s *Store) AddToUpload(ctx context.Context, id uuid.UUID, userIDs, emails []string) error {
	return s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		upload, err := tx.LockUpload(ctx, id)
		if err != nil {
			return postgres.OrNotFound(err, entitlement.ErrUploadNotFound)
		}
		if upload.Status != "UPLOADING" {
			return entitlement.ErrUploadNotFound
		}
		if err := tx.InsertEntries(ctx, db.InsertEntriesParams{UploadID: id, Values: userIDs}); err != nil {
			return err
		}
		return tx.InsertEntries(ctx, db.InsertEntriesParams{UploadID: id, IsEmail: true, Values: emails})
	})
}

func (s *Store) FinishUpload(ctx context.Context, id uuid.UUID) (list entitlement.UploadedList, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		upload, err := tx.LockUpload(ctx, id)
		if err != nil {
			return postgres.OrNotFound(err, entitlement.ErrUploadNotFound)
		}
		if upload.Status == "UPLOADING" {
			// If two uploads of one list finish at the same time, one waits here for the other.
			if _, err := tx.LockEvent(ctx, db.LockEventParams{EventID: upload.EventID, Now: tx.AsOf}); err != nil {
				return err
			}
			if err := tx.RetireList(ctx, db.RetireListParams{EventID: upload.EventID, List: upload.List, Now: tx.AsOf}); err != nil {
				return err
			}
			if err := tx.FinishUpload(ctx, db.FinishUploadParams{UploadID: id, Now: tx.AsOf}); err != nil {
				return err
			}
		}
		row, err := tx.FindUpload(ctx, id)
		list = toList(db.ListEntitlementListsRow(row))
		return err
	})
	return list, err
}

func (s *Store) Lists(ctx context.Context, eventID string) ([]entitlement.UploadedList, error) {
	q := s.database.Queries()
	if err := s.checkEvent(ctx, q, eventID); err != nil {
		return nil, err
	}
	rows, err := q.ListEntitlementLists(ctx, eventID)
	lists := make([]entitlement.UploadedList, len(rows))
	for i, r := range rows {
		lists[i] = toList(r)
	}
	return lists, pkgpostgres.Err(err)
}

func toList(r db.ListEntitlementListsRow) entitlement.UploadedList {
	return entitlement.UploadedList{Name: r.List, UserIDs: r.UserIds, Emails: r.Emails, UpdatedAt: r.UpdatedAt.UTC()}
}
