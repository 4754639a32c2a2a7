package entitlements

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

func (s *Store) MakeCodes(ctx context.Context, b entitlement.Batch, hashes [][]byte) (entitlement.Batch, error) {
	b.ID = uuid.Must(uuid.NewV7())
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		if err := s.checkEvent(ctx, tx.Queries, b.EventID); err != nil {
			return err
		}
		arg := db.InsertCodeBatchParams{BatchID: b.ID, EventID: b.EventID, CodeList: b.CodeList, Count: b.Count, Uses: b.Uses, Now: tx.AsOf}
		if err := tx.InsertCodeBatch(ctx, arg); err != nil {
			return err
		}
		if err := tx.InsertCodes(ctx, db.InsertCodesParams{BatchID: b.ID, Uses: b.Uses, Hashes: hashes}); err != nil {
			return err
		}
		row, err := tx.FindCodeBatch(ctx, db.FindCodeBatchParams{EventID: b.EventID, BatchID: b.ID})
		b = toBatch(db.ListCodeBatchesRow(row))
		return err
	})
	return b, err
}

func (s *Store) Batches(ctx context.Context, eventID string) ([]entitlement.Batch, error) {
	q := s.database.Queries()
	if err := s.checkEvent(ctx, q, eventID); err != nil {
		return nil, err
	}
	rows, err := q.ListCodeBatches(ctx, eventID)
	batches := make([]entitlement.Batch, len(rows))
	for i, r := range rows {
		batches[i] = toBatch(r)
	}
	return batches, pkgpostgres.Err(err)
}

func (s *Store) Withdraw(ctx context.Context, eventID string, id uuid.UUID) (entitlement.Batch, error) {
	q := s.database.Queries()
	if err := q.WithdrawCodes(ctx, db.WithdrawCodesParams{EventID: eventID, BatchID: id, Now: q.AsOf}); err != nil {
		return entitlement.Batch{}, pkgpostgres.Err(err)
	}
	row, err := q.FindCodeBatch(ctx, db.FindCodeBatchParams{EventID: eventID, BatchID: id})
	return toBatch(db.ListCodeBatchesRow(row)), postgres.OrNotFound(err, entitlement.ErrBatchNotFound)
}

func toBatch(r db.ListCodeBatchesRow) entitlement.Batch {
	return entitlement.Batch{
		ID: r.CodeBatch.BatchID, EventID: r.CodeBatch.EventID, CodeList: r.CodeBatch.CodeList, Count: r.CodeBatch.Count, Uses: r.CodeBatch.Uses,
		Used: r.Used, CreatedAt: r.CodeBatch.CreatedAt.UTC(), WithdrawnAt: postgres.TimeOrZero(r.CodeBatch.WithdrawnAt),
	}
}

// UseCode runs the calls of a user one after the other, so that every wrong code is counted even if
// many are tried at once. The count is committed although the call fails.
func (s *Store) UseCode(ctx context.Context, eventID, userID string, hash []byte) error {
	var refused error
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		refused = nil
		tries, err := tx.LockWrongCodes(ctx, db.LockWrongCodesParams{UserID: userID, Now: tx.AsOf})
		if err != nil {
			return err
		}
		used, err := tx.HasUsedCode(ctx, db.HasUsedCodeParams{EventID: eventID, UserID: userID, CodeHash: hash})
		if err != nil || used {
			return err
		}
		if tries.Wrong >= entitlement.MaxWrongCodes {
			refused = entitlement.ErrTooManyCodes
			return nil
		}
		batch, err := tx.TakeCode(ctx, db.TakeCodeParams{CodeHash: hash, EventID: eventID})
		if errors.Is(err, pgx.ErrNoRows) {
			refused = entitlement.ErrCodeInvalid
			return tx.CountWrongCode(ctx, db.CountWrongCodeParams{UserID: userID, Hour: tries.Hour})
		}
		if err != nil {
			return err
		}
		return tx.InsertUsedCode(ctx, db.InsertUsedCodeParams{EventID: eventID, UserID: userID, CodeHash: hash, BatchID: batch, Now: tx.AsOf})
	})
	if err != nil {
		return err
	}
	return refused
}
