package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

func (s *Store) Compensate(ctx context.Context, eventKey string, id uuid.UUID, decide payment.Decide) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		p, err := s.lock(ctx, q, id)
		if err != nil {
			return err
		}
		if fresh, err := inbox.Claim(ctx, tx, eventKey, payment.Group); err != nil || !fresh {
			return err
		}
		_, _, err = s.apply(ctx, tx, q, p, decide)
		return err
	})
}

func (s *Store) ClaimRefunds(ctx context.Context, n int, lease time.Duration) ([]payment.Refund, error) {
	rows, err := s.q.ClaimRefunds(ctx, db.ClaimRefundsParams{
		Now: s.now(), LeaseSeconds: lease.Seconds(), Batch: int32(n), //nolint:gosec // a small constant
	})
	if err != nil {
		return nil, postgres.Err(err)
	}
	due := make([]payment.Refund, len(rows))
	for i, row := range rows {
		due[i] = payment.Refund{
			ID: row.ID, PaymentID: row.PaymentID, OrderID: row.OrderID, Amount: row.Amount, Cause: payment.Cause(row.Cause),
			Reason: row.Reason, Attempts: int(row.Attempts), Lease: row.Lease, CreatedAt: row.CreatedAt,
		}
	}
	return due, nil
}

func (s *Store) FinishRefund(ctx context.Context, done payment.Refund, decide payment.Decide) error {
	return s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		p, err := s.lock(ctx, q, done.PaymentID)
		if err != nil {
			return err
		}
		// The lease does not matter: the provider has refunded under this id, and only the first
		// report changes anything.
		n, err := q.FinishRefund(ctx, db.FinishRefundParams{ID: done.ID, ProviderRefundID: done.ProviderID, Now: s.now()})
		if err != nil || n == 0 {
			return err
		}
		_, _, err = s.apply(ctx, tx, q, p, decide)
		return err
	})
}

// maxError bounds the stored error of a failed attempt, in bytes.
const maxError = 500

func (s *Store) RetryRefund(ctx context.Context, failed payment.Refund, wait time.Duration, cause error) error {
	// PostgreSQL accepts neither incomplete UTF-8 nor NUL.
	text := strings.ReplaceAll(strings.ToValidUTF8(cause.Error()[:min(len(cause.Error()), maxError)], ""), "\x00", "")
	_, err := s.q.RetryRefund(ctx, db.RetryRefundParams{
		ID: failed.ID, Lease: failed.Lease, Now: s.now(), WaitSeconds: wait.Seconds(), LastError: text,
	})
	return postgres.Err(err)
}
