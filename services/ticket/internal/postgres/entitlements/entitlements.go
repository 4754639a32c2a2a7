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

// Pruner returns a worker that packs replaced lists and deletes them after the retention, and deletes
// uploads that were not finished, and old counts of wrong codes.
func (s *Store) Pruner(retention time.Duration, log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "lists of entitlements not pruned", func(ctx context.Context) error { return s.Prune(ctx, retention) })
}

// Prune does once what the worker of Pruner does repeatedly.
func (s *Store) Prune(ctx context.Context, retention time.Duration) error {
	q := s.database.Queries()
	_, err := loop.Batches(ctx, pruneBatch, func(ctx context.Context, size int32) (int64, error) {
		return q.PruneWrongCodes(ctx, db.PruneWrongCodesParams{Now: q.AsOf, Max: size})
	})
	if err != nil {
		return pkgpostgres.Err(err)
	}
	for more := true; more && err == nil; {
		more, err = s.prunePart(ctx, retention)
	}
	return err
}

// prunePart packs or deletes up to pruneBatch entries of a list that no presale uses. After the last
// entry it marks the list as packed, or deletes it. more is false if there is no such list.
func (s *Store) prunePart(ctx context.Context, retention time.Duration) (more bool, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		more = false
		list, err := tx.LockListToDrop(ctx, db.LockListToDropParams{RetentionSeconds: retention.Seconds(), Now: tx.AsOf})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		more = true
		switch id := list.UploadID; list.Status {
		case "OLD":
			n, err := tx.PackEntries(ctx, db.PackEntriesParams{UploadID: id, Max: pruneBatch})
			if err != nil || n == pruneBatch {
				return err
			}
			return tx.MarkPacked(ctx, id)
		case "PACKED":
			if err := tx.DropPacks(ctx, id); err != nil {
				return err
			}
			return tx.DropList(ctx, id)
		default:
			n, err := tx.DropEntries(ctx, db.DropEntriesParams{UploadID: id, Max: pruneBatch})
			if err != nil || n == pruneBatch {
				return err
			}
			return tx.DropList(ctx, id)
		}
	})
	return more, err
}

func (s *Store) checkEvent(ctx context.Context, q *postgres.Queries, eventID string) error {
	_, err := q.FindEvent(ctx, db.FindEventParams{EventID: eventID, Now: q.AsOf})
	return postgres.OrNotFound(err, event.ErrNotFound)
}

func (s *Store) BeginUpload(ctx context.Context, eventID, list, operator string) (uuid.UUID, error) {
	id := uuid.Must(uuid.NewV7())
	q := s.database.Queries()
	if err := s.checkEvent(ctx, q, eventID); err != nil {
		return id, err
	}
	return id, pkgpostgres.Err(q.InsertUpload(ctx, db.InsertUploadParams{UploadID: id, EventID: eventID, List: list, UploadedBy: operator, Now: q.AsOf}))
}

func (s *Store) AddToUpload(ctx context.Context, id uuid.UUID, userIDs, emails []string) error {
	return s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		upload, err := postgres.LockUpload.Take(ctx, tx, id)
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

func (s *Store) FinishUpload(ctx context.Context, id uuid.UUID, sha256 string) (list entitlement.UploadedList, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		upload, err := postgres.LockUpload.Take(ctx, tx, id)
		if err != nil {
			return postgres.OrNotFound(err, entitlement.ErrUploadNotFound)
		}
		if upload.Status == "UPLOADING" {
			if err := replaceList(ctx, tx, upload, db.FinishUploadParams{UploadID: id, Sha256: sha256, Now: tx.AsOf}); err != nil {
				return err
			}
		}
		row, err := tx.FindUpload(ctx, id)
		list = toList(row.EntitlementList)
		return err
	})
	return list, err
}

// replaceList makes a locked upload the event's list, with the counts of its entries. It compares a
// long list with the one before it before it locks the event, for which holds would wait.
func replaceList(ctx context.Context, tx *postgres.Tx, upload db.LockUploadRow, finish db.FinishUploadParams) error {
	former, err := compareWithCurrent(ctx, tx, upload, &finish)
	if err != nil {
		return err
	}
	// If two uploads of one list finish at the same time, one waits here for the other.
	if _, err := postgres.LockEvent.Take(ctx, tx, db.LockEventParams{EventID: upload.EventID, Now: tx.AsOf}); err != nil {
		return err
	}
	now, err := tx.CurrentList(ctx, db.CurrentListParams{EventID: upload.EventID, List: upload.List})
	if err == nil && now.UploadID != former {
		former, err = compareWithCurrent(ctx, tx, upload, &finish)
	}
	if err != nil {
		return err
	}
	if err := tx.RetireList(ctx, db.RetireListParams{UploadID: former, Now: tx.AsOf}); err != nil {
		return err
	}
	return tx.FinishUpload(ctx, finish)
}

// compareWithCurrent sets the counts of an upload's entries beside the current list, and returns the
// version of that list.
func compareWithCurrent(ctx context.Context, tx *postgres.Tx, upload db.LockUploadRow, finish *db.FinishUploadParams) (uuid.UUID, error) {
	current, err := tx.CurrentList(ctx, db.CurrentListParams{EventID: upload.EventID, List: upload.List})
	if err != nil {
		return uuid.Nil, err
	}
	n, err := tx.CompareUploads(ctx, db.CompareUploadsParams{UploadID: finish.UploadID, Other: current.UploadID})
	finish.UserIds, finish.Emails = n.UserIds, n.Emails
	finish.Added, finish.Removed = n.UserIds+n.Emails-n.Kept, current.Entries-n.Kept
	return current.UploadID, err
}

func (s *Store) Lists(ctx context.Context, eventID string) ([]entitlement.UploadedList, error) {
	q := s.database.Queries()
	if err := s.checkEvent(ctx, q, eventID); err != nil {
		return nil, err
	}
	rows, err := q.ListEntitlementLists(ctx, eventID)
	lists := make([]entitlement.UploadedList, len(rows))
	for i, r := range rows {
		lists[i] = toList(r.EntitlementList)
	}
	return lists, pkgpostgres.Err(err)
}

func (s *Store) Versions(ctx context.Context, eventID, list string, before uuid.UUID, limit int) ([]entitlement.UploadedList, error) {
	q := s.database.Queries()
	if err := s.checkEvent(ctx, q, eventID); err != nil {
		return nil, err
	}
	rows, err := q.ListEntitlementVersions(ctx, db.ListEntitlementVersionsParams{EventID: eventID, List: list, Before: before, Max: int32(limit)}) //nolint:gosec // ≤ 101
	lists := make([]entitlement.UploadedList, len(rows))
	for i, r := range rows {
		lists[i] = toList(r.EntitlementList)
	}
	return lists, pkgpostgres.Err(err)
}

func (s *Store) Entries(ctx context.Context, eventID, list string, version uuid.UUID, after entitlement.Entry) ([]entitlement.Entry, error) {
	q := s.database.Queries()
	found, err := q.FindUpload(ctx, version)
	if l := found.EntitlementList; err == nil && (l.EventID != eventID || l.List != list || l.Status == "UPLOADING") {
		err = pgx.ErrNoRows
	}
	if err != nil {
		return nil, postgres.OrNotFound(err, entitlement.ErrUploadNotFound)
	}
	rows, err := q.ReadEntries(ctx, db.ReadEntriesParams{
		UploadID: version, AfterIsEmail: after.IsEmail, After: after.Value, Max: entitlement.MaxEntries,
	})
	entries := make([]entitlement.Entry, len(rows))
	for i, r := range rows {
		entries[i] = entitlement.Entry{IsEmail: r.IsEmail, Value: r.Value}
	}
	return entries, pkgpostgres.Err(err)
}

func toList(r db.EntitlementList) entitlement.UploadedList {
	l := entitlement.UploadedList{
		Version: r.UploadID, Name: r.List, UserIDs: r.UserIds, Emails: r.Emails, Added: r.Added, Removed: r.Removed,
		SHA256: r.Sha256, UploadedBy: r.UploadedBy, UpdatedAt: r.FinishedAt.UTC(),
	}
	if r.Status != "CURRENT" {
		l.ReplacedAt = r.UpdatedAt.UTC()
	}
	return l
}
