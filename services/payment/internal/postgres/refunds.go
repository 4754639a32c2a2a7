package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

func (s *Store) ApplyOnce(ctx context.Context, eventKey string, id uuid.UUID, decide payment.DecideRequest) error {
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		p, err := s.lock(ctx, q, id)
		if err != nil {
			return err
		}
		if fresh, err := inbox.Claim(ctx, tx, eventKey, payment.Group); err != nil || !fresh {
			return err
		}
		holding, err := holdingRefunds(ctx, q, id)
		if err != nil {
			return err
		}
		_, _, err = s.apply(ctx, tx, q, p, func(p payment.Payment, now time.Time) (*payment.Change, error) {
			return decide(p, payment.EarlierRefunds{Holding: holding}, now)
		})
		if err != nil {
			return err
		}
		return failpoint.Err("payment.event.before_commit")
	})
	if err != nil {
		return err
	}
	failpoint.Hit("payment.event.after_commit")
	return nil
}

// insertRefund inserts a refund with its items. inserted is false if the payment already has a
// refund with the same cause and Request.
func (s *Store) insertRefund(ctx context.Context, q *db.Queries, r payment.Refund) (inserted bool, err error) {
	scope, err := json.Marshal(r.Scope)
	if err != nil {
		return false, fmt.Errorf("refund of payment %s: %w", r.PaymentID, err)
	}
	n, err := q.InsertRefund(ctx, db.InsertRefundParams{
		ID: r.ID, PaymentID: r.PaymentID, Cause: string(r.Cause), Request: r.Request, Reason: r.Reason, Amount: r.Amount, Scope: scope,
		AskedBy: limitedUser(r), Status: string(r.Status), Provider: r.Provider, ProviderID: text(r.ProviderID), Published: r.Published, Now: s.now(),
		SendAfterSeconds: r.SendAfter.Seconds(),
	})
	if err == nil && n > 0 {
		err = insertItems(ctx, q, r.ID, r.Items)
	}
	if err != nil {
		return false, fmt.Errorf("refund of payment %s: %w", r.PaymentID, err)
	}
	return n > 0, nil
}

func insertItems(ctx context.Context, q *db.Queries, refundID uuid.UUID, items []payment.RefundItem) error {
	if len(items) == 0 {
		return nil
	}
	rows := db.InsertRefundItemsParams{RefundID: refundID}
	for _, item := range items {
		rows.TicketIds, rows.Amounts = append(rows.TicketIds, item.TicketID), append(rows.Amounts, item.Amount)
	}
	return q.InsertRefundItems(ctx, rows)
}

func (s *Store) ClaimRefunds(
	ctx context.Context, c payment.Cause, atTicket bool, n int, lease time.Duration,
) ([]payment.DueRefund, error) {
	rows, err := s.q.ClaimRefunds(ctx, db.ClaimRefundsParams{Mode: string(s.opts.Mode),
		Cause: string(c), AtTicket: atTicket, Providers: s.opts.Providers, Now: s.now(), LeaseSeconds: lease.Seconds(), Batch: int32(n), //nolint:gosec // a small constant
	})
	if err != nil {
		return nil, postgres.Err(err)
	}
	due := make([]payment.DueRefund, len(rows))
	for i, row := range rows {
		r, err := toRefund(row.Refund)
		if err != nil {
			return nil, err
		}
		due[i] = payment.DueRefund{Refund: r, Payment: toPayment(row.Payment)}
	}
	return due, nil
}

func (s *Store) ApplyRefund(ctx context.Context, id uuid.UUID, decide payment.DecideRefund) (after payment.Refund, changed bool, err error) {
	found, err := s.q.GetRefund(ctx, id)
	if err != nil {
		return payment.Refund{}, false, notFound(err)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		p, err := s.lock(ctx, q, found.Refund.PaymentID)
		if err != nil {
			return err
		}
		r, err := lockRefund(ctx, q, id)
		if err != nil {
			return err
		}
		if p.RefundedByHand > 0 {
			asked := db.ByHandRequestedParams{PaymentID: p.ID, Acts: r.Cause == payment.ByHand}
			if p.ByHandRequested, err = q.ByHandRequested(ctx, asked); err != nil {
				return err
			}
		}
		c, err := decide(p.Payment, r, p.now)
		if after, changed = r, c != nil; err != nil || c == nil {
			return err
		}
		after = c.Refund
		if c.NewItems != nil {
			after.Items = c.NewItems
		}
		return s.writeRefund(ctx, tx, q, p, r, c)
	})
	return after, changed, err
}

// lockRefund locks a refund and reads it with its items. The payment is locked already.
func lockRefund(ctx context.Context, q *db.Queries, id uuid.UUID) (payment.Refund, error) {
	row, err := q.LockRefund(ctx, id)
	if err != nil {
		return payment.Refund{}, notFound(err)
	}
	r, err := toRefund(row.Refund)
	if err != nil {
		return payment.Refund{}, err
	}
	items, err := q.RefundItems(ctx, id)
	if err != nil {
		return payment.Refund{}, err
	}
	for _, item := range items {
		r.Items = append(r.Items, payment.RefundItem{TicketID: item.TicketID, Amount: item.Amount})
	}
	return r, nil
}

// writeRefund writes the change c: the refund, its new items, and the change of its payment.
func (s *Store) writeRefund(ctx context.Context, tx pgx.Tx, q *db.Queries, p lockedPayment, before payment.Refund, c *payment.RefundChange) error {
	r := c.Refund
	if r.Status != before.Status || r.Send != before.Send {
		r.Attempts = 0 // the refund has made progress, which a new key is not
	}
	excluded, err := json.Marshal(append([]payment.ExcludedTicket{}, r.Excluded...))
	if err != nil {
		return fmt.Errorf("update refund %s: %w", r.ID, err)
	}
	update := db.UpdateRefundParams{
		ID: r.ID, SeenStatus: string(before.Status), SeenLease: before.Lease, Status: string(r.Status), Amount: r.Amount, Send: r.Send,
		Reason: r.Reason, Gen: int32(r.KeyNumber), FirstSent: optional(r.FirstSent), LastSent: optional(r.LastSent), //nolint:gosec // a small number
		RefusedKeys: int32(r.RefusedKeys), RefusedAt: optional(r.RefusedAt), KeptCode: r.KeptCode, //nolint:gosec // a small number
		DoubtAt: optional(r.DoubtAt), Excluded: excluded, ProviderID: text(r.ProviderID), PendingReason: r.PendingReason, Published: r.Published, AbortDue: r.AbortDue,
		Attempts: int32(r.Attempts), LastError: r.LastError, Now: s.now(), //nolint:gosec // a small number
	}
	if c.Wait != payment.Keep {
		due := p.now.Add(c.Wait)
		update.DueAt = &due
	}
	n, err := q.UpdateRefund(ctx, update)
	if err != nil {
		return fmt.Errorf("update refund %s: %w", r.ID, err)
	}
	if n != 1 {
		return fmt.Errorf("refund %s changed under its own lock", r.ID)
	}
	if err := insertItems(ctx, q, r.ID, c.NewItems); err != nil {
		return fmt.Errorf("items of refund %s: %w", r.ID, err)
	}
	if c.Payment == nil {
		return nil
	}
	if n := c.Payment.NewRefund; n != nil {
		if _, err := s.insertRefund(ctx, q, *n); err != nil {
			return err
		}
	}
	_, err = s.write(ctx, tx, q, p, c.Payment)
	return err
}

func (s *Store) Adopt(ctx context.Context, id uuid.UUID, found payment.ByHandRefunds) (adopted int64, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		p, err := s.lock(ctx, q, id)
		if err != nil {
			return err
		}
		adopted = 0
		for _, x := range found.Refunds {
			inserted, err := s.insertRefund(ctx, q, found.Refund(p.Payment, x))
			if err != nil {
				return err
			}
			if inserted {
				adopted += x.Amount
			}
		}
		if adopted == 0 {
			return nil
		}
		_, err = s.write(ctx, tx, q, p, found.Adopted(p.Payment, adopted))
		return err
	})
	return adopted, err
}

func (s *Store) FailByHand(ctx context.Context, paymentID uuid.UUID, decide payment.DecideByHandFailure) (changes []payment.RefundChange, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		p, err := s.lock(ctx, q, paymentID)
		if err != nil {
			return err
		}
		holding, err := holdingRefunds(ctx, q, p.ID)
		if err != nil {
			return err
		}
		changes, err = decide(p.Payment, holding, p.now)
		for i := 0; i < len(changes) && err == nil; i++ {
			before := slices.IndexFunc(holding, func(r payment.Refund) bool { return r.ID == changes[i].Refund.ID })
			err = s.writeRefund(ctx, tx, q, p, holding[before], &changes[i])
		}
		return err
	})
	return changes, err
}

// maxError is the most bytes of a failed attempt's error that are stored.
const maxError = 500

func (s *Store) PostponeRefund(ctx context.Context, r payment.Refund, wait time.Duration, cause error) error {
	message := ""
	if cause != nil {
		// PostgreSQL accepts neither incomplete UTF-8 nor NUL.
		message = strings.ReplaceAll(strings.ToValidUTF8(cause.Error()[:min(len(cause.Error()), maxError)], ""), "\x00", "")
	}
	return postgres.Err(s.q.PostponeRefund(ctx, db.PostponeRefundParams{
		ID: r.ID, Lease: r.Lease, Now: s.now(), WaitSeconds: wait.Seconds(), LastError: message,
	}))
}

func toRefund(row db.Refund) (payment.Refund, error) {
	r := payment.Refund{
		ID: row.ID, PaymentID: row.PaymentID, Provider: row.Provider, Cause: payment.Cause(row.Cause), Request: row.Request,
		Reason: row.Reason, Status: payment.RefundStatus(row.Status), Amount: row.Amount, Send: row.Send, KeyNumber: int(row.Gen),
		FirstSent: timeOf(row.FirstSent), LastSent: timeOf(row.LastSent), DoubtAt: timeOf(row.DoubtAt), PendingReason: row.PendingReason, Published: row.Published,
		RefusedKeys: int(row.RefusedKeys), RefusedAt: timeOf(row.RefusedAt), KeptCode: row.KeptCode,
		AbortDue: row.AbortDue, Attempts: int(row.Attempts), Lease: row.Lease, LastError: row.LastError, CreatedAt: row.CreatedAt,
	}
	if row.ProviderID != nil {
		r.ProviderID = *row.ProviderID
	}
	if err := errors.Join(json.Unmarshal(row.Scope, &r.Scope), json.Unmarshal(row.Excluded, &r.Excluded)); err != nil {
		return payment.Refund{}, fmt.Errorf("refund %s: %w", row.ID, err)
	}
	return r, nil
}

// text returns nil for the empty string, which is stored as NULL.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// timeOf returns the zero time for NULL.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
