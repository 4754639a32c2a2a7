// Package postgres keeps payments, refunds and Idempotency-Keys in PostgreSQL, and their events in
// the outbox.
package postgres

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/proto/events"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations create all tables of the service's database.
var Migrations = []postgres.MigrationSet{{Name: "payment", FS: files}, answers.Migrations, outbox.Migrations, inbox.Migrations}

// Store reads and writes payments and refunds. It locks a payment always before its refund.
type Store struct {
	pool  *pgxpool.Pool
	q     *db.Queries
	reads *db.Queries
	opts  Options
}

// Options are the options of a Store.
type Options struct {
	// Reads is the pool for payers who look at payments; nil: the same pool as for charges.
	Reads *pgxpool.Pool
	// Providers are the providers whose payments and refunds this process works on; nil: all.
	Providers []string
	// Mode is that of the providers' keys: payments of the other mode are not given to workers that call
	// a provider; empty: they are.
	Mode payment.Mode
	// PagesPerHour and Now are set by tests only; 0: payment.PagesPerHour, nil: the database's clock.
	PagesPerHour int64
	Now          func() time.Time
}

var _ payment.Stores = (*Store)(nil)

// NewStore returns a Store that uses the pool.
func NewStore(pool *pgxpool.Pool, opts Options) *Store {
	if opts.Reads == nil {
		opts.Reads = pool
	}
	opts.PagesPerHour = cmp.Or(opts.PagesPerHour, payment.PagesPerHour)
	return &Store{pool: pool, q: db.New(pool), reads: db.New(opts.Reads), opts: opts}
}

// now returns the time to pass to statements; nil makes them use the database's clock.
func (s *Store) now() *time.Time {
	if s.opts.Now == nil {
		return nil
	}
	t := s.opts.Now()
	return &t
}

// inTx runs fn in a transaction, and repeats it after a deadlock.
func (s *Store) inTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx, q *db.Queries) error) error {
	return postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error { return fn(ctx, tx, db.New(tx)) })
}

func (s *Store) Apply(ctx context.Context, id uuid.UUID, decide payment.Decide) (after payment.Payment, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx pgx.Tx, q *db.Queries) error {
		p, err := s.lock(ctx, q, id)
		if err != nil {
			return err
		}
		after, _, err = s.apply(ctx, tx, q, p, decide)
		return err
	})
	return after, err
}

func (s *Store) Get(ctx context.Context, id uuid.UUID) (payment.Payment, error) {
	row, err := s.q.GetPayment(ctx, id)
	if err != nil {
		return payment.Payment{}, notFound(err)
	}
	return toPayment(row.Payment), nil
}

func (s *Store) Show(ctx context.Context, id uuid.UUID) (payment.View, error) {
	row, err := s.reads.GetPayment(ctx, id)
	if err != nil {
		return payment.View{}, notFound(err)
	}
	rows, err := s.reads.Timeline(ctx, id)
	if err != nil {
		return payment.View{}, postgres.Err(err)
	}
	shown := payment.View{Payment: toPayment(row.Payment), Timeline: make([]payment.Entry, len(rows))}
	for i, r := range rows {
		shown.Timeline[i] = payment.Entry{At: r.At, Status: payment.Status(r.Status), Note: r.Note}
	}
	if shown.Payment.Captured > 0 || shown.Payment.Amount == 0 { // refunds are possible
		shown.Refunds, err = refundsOf(ctx, s.reads, id)
	}
	return shown, postgres.Err(err)
}

func (s *Store) AheadOf(ctx context.Context, id uuid.UUID) (int, error) {
	n, err := s.reads.AheadOf(ctx, id)
	return int(n), postgres.Err(err)
}

// PaymentIDsByReference returns the ids of the payments of a reference, oldest first.
func (s *Store) PaymentIDsByReference(ctx context.Context, ref payment.Reference) ([]uuid.UUID, error) {
	ids, err := s.reads.PaymentIDsByReference(ctx, db.PaymentIDsByReferenceParams{PaymentType: string(ref.Type), ReferenceID: ref.ID})
	return ids, postgres.Err(err)
}

func (s *Store) PaymentIDByOrderID(ctx context.Context, orderID string) (uuid.UUID, error) {
	id, err := s.reads.GetPaymentIDByOrder(ctx, orderID)
	if err != nil {
		return uuid.Nil, notFound(err)
	}
	return id, nil
}

func (s *Store) OrderOfCharge(ctx context.Context, provider, chargeID string) (string, error) {
	order, err := s.q.GetOrderOfCharge(ctx, db.GetOrderOfChargeParams{Provider: provider, ChargeID: chargeID})
	return order, notFound(err)
}

func (s *Store) ClaimDue(
	ctx context.Context, lane payment.Lane, n int, lease time.Duration,
) (due []payment.Payment, now time.Time, err error) {
	rows, err := s.q.ClaimDue(ctx, db.ClaimDueParams{
		Now: s.now(), Lane: string(lane), Providers: s.opts.Providers, Mode: string(s.opts.Mode), LeaseSeconds: lease.Seconds(), Batch: int32(n), //nolint:gosec // a small constant
	})
	if err != nil {
		return nil, time.Time{}, postgres.Err(err)
	}
	due = make([]payment.Payment, len(rows))
	for i, row := range rows {
		due[i], now = toPayment(row.Payment), row.Now
	}
	return due, now, nil
}

func (s *Store) Reschedule(ctx context.Context, p payment.Payment, wait time.Duration) error {
	if wait == payment.Never {
		return postgres.Err(s.q.SettlePayment(ctx, db.SettlePaymentParams{ID: p.ID, Lease: p.Lease, Version: p.Version, Now: s.now()}))
	}
	return postgres.Err(s.q.ReschedulePayment(ctx, db.ReschedulePaymentParams{
		ID: p.ID, Lease: p.Lease, Now: s.now(), WaitSeconds: wait.Seconds(),
	}))
}

func (s *Store) Poll(ctx context.Context, p payment.Payment, wait time.Duration) error {
	return postgres.Err(s.q.PollPayment(ctx, db.PollPaymentParams{
		ID: p.ID, Lease: p.Lease, Version: p.Version, Now: s.now(), WaitSeconds: wait.Seconds(),
	}))
}

func (s *Store) DueExtensions(ctx context.Context, n int) ([]payment.Payment, error) {
	rows, err := s.q.DueExtensions(ctx, db.DueExtensionsParams{Now: s.now(), Batch: int32(n)}) //nolint:gosec // a small constant
	if err != nil {
		return nil, postgres.Err(err)
	}
	due := make([]payment.Payment, len(rows))
	for i, row := range rows {
		due[i] = toPayment(row.Payment)
	}
	return due, nil
}

func (s *Store) SettledAtTicket(ctx context.Context, ids []uuid.UUID) error {
	return postgres.Err(s.q.SettledAtTicket(ctx, ids))
}

func (s *Store) Released(ctx context.Context, p payment.Payment) error {
	return postgres.Err(s.q.ReleasePayment(ctx, db.ReleasePaymentParams{ID: p.ID, Lease: p.Lease, Version: p.Version, Now: s.now()}))
}

func (s *Store) Hint(ctx context.Context, orderID string, refund bool) error {
	return s.hint(ctx, db.HintPaymentParams{OrderID: orderID, Refund: refund, Now: s.now()})
}

func (s *Store) HintReturn(ctx context.Context, orderID string) error {
	return s.hint(ctx, db.HintPaymentParams{OrderID: orderID, Returned: true, Now: s.now()})
}

func (s *Store) HintUnsigned(ctx context.Context, provider, orderID string, refund bool) error {
	return s.hint(ctx, db.HintPaymentParams{Provider: provider, OrderID: orderID, Refund: refund, Unsigned: true, Now: s.now()})
}

func (s *Store) hint(ctx context.Context, hint db.HintPaymentParams) error {
	n, err := s.q.HintPayment(ctx, hint)
	if err != nil || n > 0 {
		return postgres.Err(err)
	}
	_, err = s.q.GetPaymentIDByOrder(ctx, hint.OrderID) // tells an order that needs no look-up from an unknown one
	return notFound(err)
}

func (s *Store) Warn(ctx context.Context, orderID, fraudType string) error {
	n, err := s.q.WarnOfFraud(ctx, db.WarnOfFraudParams{OrderID: orderID, FraudType: fraudType, Now: s.now()})
	if err != nil || n > 0 {
		return postgres.Err(err)
	}
	_, err = s.q.GetPaymentIDByOrder(ctx, orderID) // tells an order of which a warning is known from an unknown one
	return notFound(err)
}

func (s *Store) ListDisputes(ctx context.Context, warned bool, limit int, before uuid.UUID) ([]payment.Payment, error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	q := db.ListDisputedParams{Before: before, Max: int32(limit)} //nolint:gosec // at most 101
	var list []payment.Payment
	if warned {
		rows, err := s.reads.ListWarned(ctx, db.ListWarnedParams(q))
		for _, row := range rows {
			list = append(list, toPayment(row.Payment))
		}
		return list, postgres.Err(err)
	}
	rows, err := s.reads.ListDisputed(ctx, q)
	for _, row := range rows {
		list = append(list, toPayment(row.Payment))
	}
	return list, postgres.Err(err)
}

func (s *Store) OldestEvent(ctx context.Context) (time.Duration, error) {
	return outbox.OldestAge(ctx, s.pool, events.Payments, nil)
}

func notFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return payment.ErrNotFound
	}
	return postgres.Err(err)
}
