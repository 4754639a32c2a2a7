package rpc_test

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/payment/internal/payment"
)

// errDead is the error of every call of a process that has died.
var errDead = errors.New("the process is dead")

// lifetime is how long a process lives. Each call counts as two steps: before and after it takes
// effect. between is called before each call.
type lifetime struct {
	remaining int
	between   func()
}

func (l *lifetime) call(do func() error) error {
	l.between()
	if l.remaining--; l.remaining < 0 {
		return errDead
	}
	err := do()
	if l.remaining--; l.remaining < 0 {
		return errDead
	}
	return err
}

// mortalStore, mortalTickets and mortalProvider fail each call after the process has died.
type mortalStore struct {
	payment.Stores
	*lifetime
}

func (m mortalStore) Open(ctx context.Context, n payment.Payment, key *idempotency.Key) (p payment.Payment, err error) {
	err = m.call(func() error { p, err = m.Stores.Open(ctx, n, key); return err })
	return p, err
}

func (m mortalStore) Begin(ctx context.Context, order string, key *idempotency.Key, decide payment.Decide) (b payment.Begun, err error) {
	err = m.call(func() error { b, err = m.Stores.Begin(ctx, order, key, decide); return err })
	return b, err
}

func (m mortalStore) Apply(ctx context.Context, id uuid.UUID, decide payment.Decide) (p payment.Payment, err error) {
	err = m.call(func() error { p, err = m.Stores.Apply(ctx, id, decide); return err })
	return p, err
}

func (m mortalStore) ApplyRefund(ctx context.Context, id uuid.UUID, decide payment.DecideRefund) (r payment.Refund, changed bool, err error) {
	err = m.call(func() error { r, changed, err = m.Stores.ApplyRefund(ctx, id, decide); return err })
	return r, changed, err
}

func (m mortalStore) Adopt(ctx context.Context, id uuid.UUID, found payment.ByHandRefunds) (adopted int64, err error) {
	err = m.call(func() error { adopted, err = m.Stores.Adopt(ctx, id, found); return err })
	return adopted, err
}

func (m mortalStore) ClaimDue(ctx context.Context, lane payment.Lane, n int, lease time.Duration) (due []payment.Payment, now time.Time, err error) {
	err = m.call(func() error { due, now, err = m.Stores.ClaimDue(ctx, lane, min(n, 1), lease); return err })
	return due, now, err
}

// ClaimRefunds claims one refund at a time, like ClaimDue, so that the steps have a fixed order.
func (m mortalStore) ClaimRefunds(ctx context.Context, c payment.Cause, atTicket bool, n int, lease time.Duration) (due []payment.DueRefund, err error) {
	err = m.call(func() error { due, err = m.Stores.ClaimRefunds(ctx, c, atTicket, min(n, 1), lease); return err })
	return due, err
}

func (m mortalStore) Reschedule(ctx context.Context, p payment.Payment, wait time.Duration) error {
	return m.call(func() error { return m.Stores.Reschedule(ctx, p, wait) })
}

func (m mortalStore) Released(ctx context.Context, p payment.Payment) error {
	return m.call(func() error { return m.Stores.Released(ctx, p) })
}

func (m mortalStore) Poll(ctx context.Context, p payment.Payment, wait time.Duration) error {
	return m.call(func() error { return m.Stores.Poll(ctx, p, wait) })
}

func (m mortalStore) Hint(ctx context.Context, order string, refund bool) error {
	return m.call(func() error { return m.Stores.Hint(ctx, order, refund) })
}

func (m mortalStore) DueExtensions(ctx context.Context, n int) (due []payment.Payment, err error) {
	err = m.call(func() error { due, err = m.Stores.DueExtensions(ctx, n); return err })
	return due, err
}

func (m mortalStore) SettledAtTicket(ctx context.Context, ids []uuid.UUID) error {
	return m.call(func() error { return m.Stores.SettledAtTicket(ctx, ids) })
}

type mortalTickets struct {
	payment.Tickets
	*lifetime
}

func (m mortalTickets) Begin(ctx context.Context, p payment.Payment, t payment.PayTime) (until time.Time, err error) {
	err = m.call(func() error { until, err = m.Tickets.Begin(ctx, p, t); return err })
	return until, err
}

func (m mortalTickets) BeginRefund(ctx context.Context, p payment.Payment, r payment.Refund) (c payment.Claim, err error) {
	err = m.call(func() error { c, err = m.Tickets.BeginRefund(ctx, p, r); return err })
	return c, err
}

func (m mortalTickets) Abort(ctx context.Context, p payment.Payment) error {
	return m.call(func() error { return m.Tickets.Abort(ctx, p) })
}

func (m mortalTickets) Extend(ctx context.Context, payments []payment.Payment) (ids []uuid.UUID, err error) {
	err = m.call(func() error { ids, err = m.Tickets.Extend(ctx, payments); return err })
	return ids, err
}

type mortalProvider struct {
	payment.Provider
	*lifetime

	admits func() bool
}

func (m mortalProvider) Open(ctx context.Context, p payment.Payment) (page payment.Page, err error) {
	err = m.call(func() error { page, err = m.Provider.Open(ctx, p); return err })
	return page, err
}

func (m mortalProvider) Charge(ctx context.Context, p payment.Payment, seen payment.Outcome) (out payment.Outcome, err error) {
	err = m.call(func() error {
		if !m.admits() {
			return payment.ErrNotAdmitted
		}
		out, err = m.Provider.Charge(ctx, p, seen)
		return err
	})
	return out, err
}

func (m mortalProvider) Ask(ctx context.Context, p payment.Payment) (out payment.Outcome, err error) {
	err = m.call(func() error { out, err = m.Provider.Ask(ctx, p); return err })
	return out, err
}

func (m mortalProvider) AskRefunds(ctx context.Context, p payment.Payment) (report payment.RefundReport, err error) {
	err = m.call(func() error { report, err = m.Provider.AskRefunds(ctx, p); return err })
	return report, err
}

func (m mortalProvider) Cancel(ctx context.Context, p payment.Payment) (out payment.Outcome, err error) {
	err = m.call(func() error { out, err = m.Provider.Cancel(ctx, p); return err })
	return out, err
}
