package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

// Replay implements payment.Store.
func (s *Store) Replay(ctx context.Context, key payment.Key) (*payment.Payment, error) {
	a, err := replay(ctx, s.q, key)
	if err != nil || a == nil {
		return nil, err
	}
	row, err := s.q.GetPayment(ctx, a.PaymentID)
	if err != nil {
		return nil, notFound(err)
	}
	p := toPayment(row)
	return &p, nil
}

// Open implements payment.Store.
func (s *Store) Open(ctx context.Context, n payment.Payment, key payment.Key) (opened payment.Payment, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		first, err := claim(ctx, q, key)
		if err != nil {
			return err
		}
		if first != nil { // the same request was faster
			row, err := q.GetPayment(ctx, first.PaymentID)
			opened = toPayment(row)
			return err
		}
		if opened, err = openOrExisting(ctx, tx, q, n); err != nil {
			return err
		}
		return keep(ctx, q, key, payment.Answer{Status: payment.Prepared, PaymentID: opened.ID})
	})
	return opened, err
}

// openOrExisting returns the open payment of the reference when it is still the same one, else a new one in its place.
func openOrExisting(ctx context.Context, tx pgx.Tx, q *db.Queries, n payment.Payment) (payment.Payment, error) {
	for {
		row, err := q.LockOpenPayment(ctx, db.LockOpenPaymentParams{PaymentType: string(n.Reference.Type), ReferenceID: n.Reference.ID})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return payment.Payment{}, err
		default:
			p, err := lockedRow(ctx, q, row)
			if err != nil {
				return payment.Payment{}, err
			}
			if p.Same(n, p.now) {
				return p.Payment, nil
			}
			if _, _, err := apply(ctx, tx, q, p, payment.Superseded); err != nil {
				return payment.Payment{}, err
			}
		}
		opened, err := insert(ctx, q, n)
		if !errors.Is(err, pgx.ErrNoRows) {
			return opened, err
		}
		// Another request has just opened one: it is there now.
	}
}

func insert(ctx context.Context, q *db.Queries, n payment.Payment) (payment.Payment, error) {
	ref := db.IsPaidParams{PaymentType: string(n.Reference.Type), ReferenceID: n.Reference.ID}
	row, err := q.InsertPayment(ctx, db.InsertPaymentParams{
		ID: n.ID, OrderID: n.OrderID, PaymentType: ref.PaymentType, ReferenceID: ref.ReferenceID, UserID: n.UserID, EventID: n.EventID,
		Amount: n.Amount, Currency: n.Currency, Provider: n.Provider, ExpiresAt: n.ExpiresAt,
	})
	if err != nil {
		return payment.Payment{}, err
	}
	// Looked at after the insert: while another payment of the reference was open, the insert would have failed, so what it became since
	// is visible here.
	paid, err := q.IsPaid(ctx, ref)
	if err != nil {
		return payment.Payment{}, err
	}
	if paid {
		return payment.Payment{}, payment.ErrAlreadyPaid
	}
	err = q.AddTimelineEntry(ctx, db.AddTimelineEntryParams{PaymentID: n.ID, Status: string(payment.Prepared), Note: "opened"})
	return toPayment(row), err
}

// Begin implements payment.Store.
func (s *Store) Begin(ctx context.Context, orderID string, key payment.Key, decide payment.Decide) (begun payment.Begun, err error) {
	id, err := s.q.GetPaymentIDByOrder(ctx, orderID)
	if err != nil {
		return payment.Begun{}, notFound(err)
	}
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		begun = payment.Begun{}
		p, err := lock(ctx, q, id)
		if err != nil {
			return err
		}
		if begun.Replayed, err = claim(ctx, q, key); err != nil || begun.Replayed != nil {
			return err
		}
		var changed bool
		if begun.Payment, changed, err = apply(ctx, tx, q, p, decide); err != nil {
			return err
		}
		begun.Mine = changed && begun.Payment.Status == payment.Confirming
		if begun.Mine {
			return q.BindKey(ctx, db.BindKeyParams{
				UserID: key.UserID, Route: key.Route, Key: key.Key, PaymentID: uuid.NullUUID{UUID: id, Valid: true},
			})
		}
		if a := payment.Final(begun.Payment); a != nil {
			return keep(ctx, q, key, *a)
		}
		return q.ReleaseKey(ctx, db.ReleaseKeyParams{UserID: key.UserID, Route: key.Route, Key: key.Key})
	})
	return begun, err
}

// claim starts a request under its key. It returns the answer of the first one when there is one; ErrKeyReused, ErrKeyInProgress.
func claim(ctx context.Context, q *db.Queries, key payment.Key) (*payment.Answer, error) {
	_, err := q.ClaimKey(ctx, db.ClaimKeyParams{UserID: key.UserID, Route: key.Route, Key: key.Key, Fingerprint: key.Fingerprint[:]})
	if err == nil {
		return nil, nil //nolint:nilnil // a new request
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("idempotency key: %w", err)
	}
	a, err := replay(ctx, q, key)
	if err == nil && a == nil {
		err = payment.ErrKeyInProgress
	}
	return a, err
}

// replay returns the answer that is kept under a key, nil when there is none (yet); ErrKeyReused.
func replay(ctx context.Context, q *db.Queries, key payment.Key) (*payment.Answer, error) {
	row, err := q.GetKey(ctx, db.GetKeyParams{UserID: key.UserID, Route: key.Route, Key: key.Key})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // nothing is kept
	case err != nil:
		return nil, postgres.Err(err)
	case !bytes.Equal(row.Fingerprint, key.Fingerprint[:]):
		return nil, payment.ErrKeyReused
	case row.Answer == nil:
		return nil, nil //nolint:nilnil // still running
	}
	var a payment.Answer
	if err := json.Unmarshal(row.Answer, &a); err != nil {
		return nil, fmt.Errorf("kept answer: %w", err)
	}
	return &a, nil
}

func keep(ctx context.Context, q *db.Queries, key payment.Key, a payment.Answer) error {
	b, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return q.AnswerKey(ctx, db.AnswerKeyParams{
		UserID: key.UserID, Route: key.Route, Key: key.Key, Answer: b, PaymentID: uuid.NullUUID{UUID: a.PaymentID, Valid: true},
	})
}
