// Package purchases stores what is sold, and what is given back: reservations, tickets, transfers,
// memberships, and claims of refunds. It writes the changes of all that a transaction has locked
// together with the Kafka events about them.
package purchases

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/outbox"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/purchase"
)

// locked has rows of one table that a transaction has locked.
type locked[T any] []row[T]

// row is a locked row as it was read (before), and as it will be written (current).
type row[T any] struct {
	id      uuid.UUID
	before  T
	current *T
}

// lockedOf returns the rows that a statement has locked.
func lockedOf[R, T any](rows []R, convert func(R) T, id func(*T) uuid.UUID) locked[T] {
	l := make(locked[T], len(rows))
	for i, r := range rows {
		t := convert(r)
		l[i] = row[T]{id: id(&t), before: t, current: &t}
	}
	return l
}

// Find returns what has this id, or nil if it is not locked.
func (l locked[T]) Find(id uuid.UUID) *T {
	for _, r := range l {
		if r.id == id {
			return r.current
		}
	}
	return nil
}

// All returns everything that is locked.
func (l locked[T]) All() []*T {
	all := make([]*T, len(l))
	for i, r := range l {
		all[i] = r.current
	}
	return all
}

// insertEvents inserts Kafka events into the outbox. The rows of what they are about must be locked,
// or new.
func insertEvents[E any](ctx context.Context, tx pgx.Tx, list []E, convert func(*E) outbox.Event) error {
	if len(list) == 0 {
		return nil
	}
	out := make([]outbox.Event, len(list))
	for i := range list {
		out[i] = convert(&list[i])
	}
	return outbox.Insert(ctx, tx, postgres.EventSource, out...)
}

// asReference replaces the error notFound by the one that the payment service expects.
func asReference(err, notFound error) error {
	if errors.Is(err, notFound) {
		return purchase.ErrReferenceNotFound
	}
	return err
}

// paying asks with a statement for one type of purchase which payments are under way, and which of
// them have less time left (short).
func paying[Row db.PayingReservationsRow | db.PayingTransfersRow | db.PayingMembershipsRow](
	ctx context.Context, q *postgres.Queries, payments []purchase.UnderWay, left time.Duration,
	run func(context.Context, db.PayingReservationsParams) ([]Row, error),
) (all, short []purchase.UnderWay, err error) {
	arg := db.PayingReservationsParams{Now: q.AsOf, ShortSeconds: int32(left / time.Second)} //nolint:gosec // minutes
	for _, p := range payments {
		arg.ReferenceIds, arg.PaymentIds = append(arg.ReferenceIds, p.ReferenceID), append(arg.PaymentIds, p.PaymentID)
	}
	rows, err := run(ctx, arg)
	for _, r := range rows {
		row := db.PayingReservationsRow(r)
		p := purchase.UnderWay{ReferenceID: row.ReferenceID, PaymentID: row.PaymentID}
		if all = append(all, p); row.Short {
			short = append(short, p)
		}
	}
	return all, short, pkgpostgres.Err(err)
}

// changeEach changes the purchases of payments, each in a transaction of its own.
func changeEach[P purchase.Purchase](
	ctx context.Context, s purchase.Store[P], payments []purchase.UnderWay, change func(p P, payment uuid.UUID, now time.Time),
) error {
	for _, u := range payments {
		err := s.ChangeToBegin(ctx, u.ReferenceID, func(p P, now time.Time) error {
			change(p, u.PaymentID, now)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
