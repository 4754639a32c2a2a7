package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

func (s *Store) AddRefund(ctx context.Context, r payment.Refund, decide payment.DecideRequest) (stored payment.Refund, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		asker := askedBy(r)
		if asker != "" { // before the payment, as every request does
			if err := q.LockAsker(ctx, asker); err != nil {
				return err
			}
		}
		p, err := s.lock(ctx, q, r.PaymentID)
		if err != nil {
			return err
		}
		var known []payment.Refund
		find := func() (found bool, err error) {
			if known, err = refundsOf(ctx, q, p.ID); err != nil {
				return false, err
			}
			i := slices.IndexFunc(known, func(k payment.Refund) bool { return k.Cause == r.Cause && k.Request == r.Request })
			if i >= 0 {
				stored = known[i]
			}
			return i >= 0, nil
		}
		if found, err := find(); err != nil || found {
			return err
		}
		asked, err := s.asked(ctx, q, asker)
		if err != nil {
			return err
		}
		if _, _, err = s.apply(ctx, tx, q, p, func(p payment.Payment, now time.Time) (*payment.Change, error) {
			return decide(p, payment.Requested{Refunds: known, Asked: asked}, now)
		}); err != nil {
			return err
		}
		if found, err := find(); err != nil || !found {
			return fmt.Errorf("refund of payment %s is not stored: %w", p.ID, err)
		}
		return nil
	})
	return stored, err
}

// askedBy returns the user whose requests are counted; empty: none.
func askedBy(r payment.Refund) string {
	if r.Cause != payment.ByUser {
		return ""
	}
	return r.Want.UserID
}

// asked returns the times of a user's requests within the hour.
func (s *Store) asked(ctx context.Context, q *db.Queries, userID string) ([]time.Time, error) {
	if userID == "" {
		return nil, nil
	}
	return q.AskedSince(ctx, db.AskedSinceParams{UserID: userID, Now: s.now(), Seconds: payment.RefundHour.Seconds()})
}

// refundsOf returns the refunds of a payment with their items, oldest first.
func refundsOf(ctx context.Context, q *db.Queries, paymentID uuid.UUID) ([]payment.Refund, error) {
	rows, err := q.RefundsOfPayment(ctx, paymentID)
	if err != nil {
		return nil, err
	}
	list := make([]payment.Refund, len(rows))
	for i, row := range rows {
		if list[i], err = toRefund(row.Refund); err != nil {
			return nil, err
		}
	}
	return list, addItems(ctx, q, len(list), func(i int) *payment.Refund { return &list[i] })
}

// addItems reads the items of n refunds.
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
