package postgres

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

func (s *Store) AddRefund(
	ctx context.Context, r payment.Refund, decide payment.DecideRequest,
) (of payment.Payment, stored payment.Refund, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		asker := limitedUser(r)
		if asker != "" { // lock in a fixed order: the user, then the payment
			if err := q.LockAsker(ctx, asker); err != nil {
				return err
			}
		}
		p, err := s.lock(ctx, q, r.PaymentID)
		if err != nil {
			return err
		}
		of = p.Payment
		if stored, err = findRefund(ctx, q, r); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		holding, err := holdingRefunds(ctx, q, p.ID)
		if err != nil {
			return err
		}
		times, err := s.requestTimes(ctx, q, asker)
		if err != nil {
			return err
		}
		if of, _, err = s.apply(ctx, tx, q, p, func(p payment.Payment, now time.Time) (*payment.Change, error) {
			return decide(p, payment.EarlierRefunds{Holding: holding, Asked: times}, now)
		}); err != nil {
			return err
		}
		stored, err = findRefund(ctx, q, r)
		return err
	})
	return of, stored, err
}

// findRefund returns the stored refund with r's payment, cause and Request, or pgx.ErrNoRows.
func findRefund(ctx context.Context, q *db.Queries, r payment.Refund) (payment.Refund, error) {
	row, err := q.FindRefund(ctx, db.FindRefundParams{PaymentID: r.PaymentID, Cause: string(r.Cause), Request: r.Request})
	if err != nil {
		return payment.Refund{}, err
	}
	found, err := toRefund(row.Refund)
	if err != nil {
		return payment.Refund{}, err
	}
	return found, addItems(ctx, q, 1, func(int) *payment.Refund { return &found })
}

// limitedUser returns the user who asked for r if the number of such requests is limited. It is
// empty if the cause is not ByUser: other refunds have no limit.
func limitedUser(r payment.Refund) string {
	if r.Cause != payment.ByUser {
		return ""
	}
	return r.Scope.UserID
}

// requestTimes returns when a user has asked for refunds within the last hour.
func (s *Store) requestTimes(ctx context.Context, q *db.Queries, userID string) ([]time.Time, error) {
	if userID == "" {
		return nil, nil
	}
	return q.AskedSince(ctx, db.AskedSinceParams{UserID: userID, Now: s.now(), Seconds: payment.RefundHour.Seconds()})
}

// refundsOf returns the refunds of a payment that are shown to its payer, with items, oldest first.
func refundsOf(ctx context.Context, q *db.Queries, paymentID uuid.UUID) ([]payment.Refund, error) {
	rows, err := q.RefundsOfPayment(ctx, paymentID)
	if err != nil {
		return nil, err
	}
	return withItems(ctx, q, len(rows), func(i int) db.Refund { return rows[i].Refund })
}

// holdingRefunds returns the refunds that have claimed tickets of a payment, or will claim some.
func holdingRefunds(ctx context.Context, q *db.Queries, paymentID uuid.UUID) ([]payment.Refund, error) {
	rows, err := q.HoldingRefunds(ctx, paymentID)
	if err != nil {
		return nil, err
	}
	return withItems(ctx, q, len(rows), func(i int) db.Refund { return rows[i].Refund })
}

// withItems converts n rows to refunds, and reads the refunds' items.
func withItems(ctx context.Context, q *db.Queries, n int, row func(i int) db.Refund) (list []payment.Refund, err error) {
	list = make([]payment.Refund, n)
	for i := range list {
		if list[i], err = toRefund(row(i)); err != nil {
			return nil, err
		}
	}
	return list, addItems(ctx, q, n, func(i int) *payment.Refund { return &list[i] })
}

// addItems reads the items of n refunds into them.
func addItems(ctx context.Context, q *db.Queries, n int, refund func(i int) *payment.Refund) error {
	if n == 0 {
		return nil
	}
	ids := make([]uuid.UUID, n)
	byID := make(map[uuid.UUID]*payment.Refund, n)
	for i := range n {
		ids[i] = refund(i).ID
		byID[ids[i]] = refund(i)
	}
	items, err := q.ItemsOfRefunds(ctx, ids)
	for _, item := range items {
		r := byID[item.RefundID]
		r.Items = append(r.Items, payment.RefundItem{TicketID: item.TicketID, Amount: item.Amount})
	}
	return err
}

func (s *Store) ListRefunds(
	ctx context.Context, status payment.RefundStatus, limit int, before uuid.UUID,
) (list []payment.DueRefund, err error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	var rows []db.ListRefundsRow
	if status == "" {
		rows, err = s.reads.ListRefunds(ctx, db.ListRefundsParams{Before: before, Max: int32(limit)}) //nolint:gosec // at most 101
	} else {
		var found []db.ListRefundsByStatusRow
		found, err = s.reads.ListRefundsByStatus(ctx, db.ListRefundsByStatusParams{
			Status: string(status), Before: before, Max: int32(limit), //nolint:gosec // at most 101
		})
		for _, row := range found {
			rows = append(rows, db.ListRefundsRow(row))
		}
	}
	if err != nil {
		return nil, postgres.Err(err)
	}
	list = make([]payment.DueRefund, len(rows))
	for i, row := range rows {
		list[i].Payment = toPayment(row.Payment)
		if list[i].Refund, err = toRefund(row.Refund); err != nil {
			return nil, err
		}
	}
	return list, postgres.Err(addItems(ctx, s.reads, len(list), func(i int) *payment.Refund { return &list[i].Refund }))
}

const (
	pruneEvery = 10 * time.Minute
	pruneBatch = 1000
)

// PruneRefunds deletes old REJECTED refunds. Several replicas may run it at the same time.
func (s *Store) PruneRefunds(ctx context.Context) error {
	_, err := loop.Batches(ctx, pruneBatch, func(ctx context.Context, size int32) (int64, error) {
		return s.q.PruneRefunds(ctx, db.PruneRefundsParams{Now: s.now(), Max: size})
	})
	return postgres.Err(err)
}

// RefundPruner returns a worker that calls PruneRefunds until its context ends.
func (s *Store) RefundPruner(log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "rejected refunds not deleted", s.PruneRefunds)
}
