package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

func (s *Store) Replay(ctx context.Context, key *idempotency.Key) (first *payment.Payment, err error) {
	err = postgres.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		first, err = claimKey(ctx, tx, db.New(tx), key)
		return err
	})
	return first, err
}

func (s *Store) Open(ctx context.Context, n payment.Payment, key *idempotency.Key) (p payment.Payment, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		first, err := claimKey(ctx, tx, q, key)
		if err != nil {
			return err
		}
		if first != nil { // a concurrent request with the same key has opened it
			p = *first
			return nil
		}
		if p, err = s.openOrExisting(ctx, tx, q, n); err != nil {
			return err
		}
		return answers.Keep(ctx, tx, key, p.ID.String())
	})
	return p, err
}

// claimKey claims the key for this request. If an earlier request with the key opened a payment, it
// returns that payment, otherwise nil.
func claimKey(ctx context.Context, tx pgx.Tx, q *db.Queries, key *idempotency.Key) (*payment.Payment, error) {
	kept, err := answers.Claim(ctx, tx, key)
	if err != nil || kept == "" {
		return nil, err
	}
	id, err := uuid.Parse(kept)
	if err != nil {
		return nil, fmt.Errorf("kept answer: %w", err)
	}
	row, err := q.GetPayment(ctx, id)
	if err != nil {
		return nil, notFound(err)
	}
	p := toPayment(row.Payment)
	return &p, nil
}

// openOrExisting returns the open payment of n's reference if it is ReusableFor n. Otherwise it
// ends that payment, if there is one, and opens n.
func (s *Store) openOrExisting(ctx context.Context, tx pgx.Tx, q *db.Queries, n payment.Payment) (payment.Payment, error) {
	for {
		row, err := q.LockOpenPayment(ctx, db.LockOpenPaymentParams{
			PaymentType: string(n.Reference.Type), ReferenceID: n.Reference.ID, Now: s.now(),
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return payment.Payment{}, err
		default:
			p := lockedPayment{Payment: toPayment(row.Payment), now: row.Now, checkAt: row.Payment.CheckAt}
			if p.ReusableFor(n, p.now) {
				return p.Payment, nil
			}
			if _, _, err := s.apply(ctx, tx, q, p, payment.Superseded); err != nil {
				return payment.Payment{}, err
			}
		}
		if err := s.checkPages(ctx, q, n); err != nil {
			return payment.Payment{}, err
		}
		opened, err := s.insert(ctx, q, n)
		if !errors.Is(err, pgx.ErrNoRows) {
			return opened, err
		}
		// Another request has opened a payment meanwhile: the loop reads that one.
	}
}

// checkPages refuses a page to a user who has opened PagesPerHour. Requests of a user wait for each
// other, so that not all of them find the last free one.
func (s *Store) checkPages(ctx context.Context, q *db.Queries, n payment.Payment) error {
	if !n.HasPage() {
		return nil
	}
	if err := q.LockUser(ctx, n.UserID); err != nil {
		return err
	}
	opened, err := q.PagesOf(ctx, db.PagesOfParams{UserID: n.UserID, WithinSeconds: payment.PagesTime.Seconds(), Now: s.now()})
	if err != nil || opened.Pages < s.opts.PagesPerHour {
		return err
	}
	return payment.ErrTooManyPages.WithRetry(opened.Oldest.Add(payment.PagesTime).Sub(opened.Now))
}

func (s *Store) insert(ctx context.Context, q *db.Queries, n payment.Payment) (payment.Payment, error) {
	ref := db.IsPaidParams{PaymentType: string(n.Reference.Type), ReferenceID: n.Reference.ID}
	row, err := q.InsertPayment(ctx, db.InsertPaymentParams{
		ID: n.ID, OrderID: n.OrderID, PaymentType: ref.PaymentType, ReferenceID: ref.ReferenceID, UserID: n.UserID, EventID: n.EventID,
		Amount: n.Amount, Currency: n.Currency, Provider: n.Provider, ExpiresAt: n.ExpiresAt, PageToken: n.Token, PageTokenSha256: n.TokenSHA256, Description: n.Description,
		StatementSuffix: n.StatementSuffix, Email: n.Email, Mode: string(cmp.Or(n.Mode, payment.TestMode)), Now: s.now(),
	})
	if err != nil {
		return payment.Payment{}, err
	}
	// This is read after the insert, which fails while another payment of the reference is open. So a
	// payment that was CONFIRMED before the insert is visible here.
	paid, err := q.IsPaid(ctx, ref)
	if err != nil {
		return payment.Payment{}, err
	}
	if paid {
		return payment.Payment{}, payment.ErrAlreadyPaid
	}
	err = q.AddTimelineEntry(ctx, db.AddTimelineEntryParams{
		PaymentID: n.ID, Status: string(payment.Prepared), Note: "opened", Now: s.now(),
	})
	return toPayment(row.Payment), err
}

// confirmTimeout is the time after which the key of an unfinished confirmation may be used again.
// The payment's status then still prevents a second charge.
const confirmTimeout = time.Minute

func (s *Store) Begin(
	ctx context.Context, orderID string, key *idempotency.Key, decide payment.Decide,
) (begun payment.Begun, err error) {
	id, err := s.q.GetPaymentIDByOrder(ctx, orderID)
	if err != nil {
		return payment.Begun{}, notFound(err)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		begun = payment.Begun{}
		p, err := s.lock(ctx, q, id)
		if err != nil {
			return err
		}
		kept, err := answers.Claim(ctx, tx, key)
		if err != nil {
			return err
		}
		if kept != "" {
			return json.Unmarshal([]byte(kept), &begun.Replayed)
		}
		begun.Before = p.Payment
		var changed bool
		if begun.Payment, changed, err = s.apply(ctx, tx, q, p, decide); err != nil {
			return err
		}
		begun.MustCharge = changed && begun.Payment.Status == payment.Confirming
		if begun.MustCharge {
			return answers.Start(ctx, tx, key, id, confirmTimeout)
		}
		if final := payment.Final(begun.Payment); final != nil {
			answer, err := json.Marshal(final)
			if err != nil {
				return fmt.Errorf("answer: %w", err)
			}
			return answers.Keep(ctx, tx, key, string(answer))
		}
		return nil
	})
	return begun, err
}
