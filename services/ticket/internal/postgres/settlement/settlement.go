// Package settlement applies payment events to reservations, each once.
package settlement

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/inbox"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

var _ reservation.Settler = (*Store)(nil)

// Store keeps which payment events were applied, and which payments were refunded.
type Store struct{ database *postgres.Database }

// NewStore makes a Store.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

func (s *Store) Settle(ctx context.Context, group string, events []reservation.PaymentEvent) error {
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		keys := make([]string, len(events))
		for i, e := range events {
			keys[i] = e.Key
		}
		fresh, err := inbox.ClaimAll(ctx, tx, keys, group)
		if err != nil {
			return err
		}
		if err := settle(ctx, tx, unseen(events, fresh)); err != nil {
			return err
		}
		return failpoint.Err("ticket.confirm.before_commit")
	})
	if err != nil {
		return err
	}
	failpoint.Hit("ticket.confirm.after_commit")
	s.database.Published()
	return nil
}

// unseen keeps the events that are fresh, each once.
func unseen(events []reservation.PaymentEvent, fresh map[string]bool) []reservation.PaymentEvent {
	var todo []reservation.PaymentEvent
	for _, e := range events {
		if fresh[e.Key] {
			delete(fresh, e.Key)
			todo = append(todo, e)
		}
	}
	return todo
}

func settle(ctx context.Context, tx *postgres.Tx, events []reservation.PaymentEvent) error {
	if len(events) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(events))
	for i, e := range events {
		ids[i] = e.ReservationID
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	locked, err := reservations.Lock(ctx, tx, slices.Compact(ids))
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx, tx.ClockTime()) // not locked.Now: none of the reservations may exist
	if err != nil {
		return err
	}
	refunds, err := refundsOf(ctx, tx.Queries, events)
	if err != nil {
		return err
	}
	batch := reservation.Settlement{Find: locked.Find, Refunds: refunds, Now: now.UTC()}
	rejected := batch.Apply(events)
	if err := saveRefunds(ctx, tx.Queries, events); err != nil {
		return err
	}
	happened, err := locked.Save(ctx, tx)
	if err != nil {
		return err
	}
	return reservations.InsertEvents(ctx, tx, append(happened, rejected...))
}

// refundsOf reads the known refunds of the events' payments: the payment's version by its id. The
// reservations must be locked.
func refundsOf(ctx context.Context, q *postgres.Queries, events []reservation.PaymentEvent) (map[uuid.UUID]int64, error) {
	ids := make([]uuid.UUID, len(events))
	for i, e := range events {
		ids[i] = e.Payment.ID
	}
	rows, err := q.RefundsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	refunds := make(map[uuid.UUID]int64, len(rows))
	for _, r := range rows {
		refunds[r.PaymentID] = r.Version
	}
	return refunds, nil
}

// saveRefunds keeps which payments were refunded, for a confirmation that is delivered after its
// refund.
func saveRefunds(ctx context.Context, q *postgres.Queries, events []reservation.PaymentEvent) error {
	var refunds db.SaveRefundsParams
	for _, e := range events {
		if e.Refunded {
			refunds.PaymentIds, refunds.Versions = append(refunds.PaymentIds, e.Payment.ID), append(refunds.Versions, e.Version)
		}
	}
	if len(refunds.PaymentIds) == 0 {
		return nil
	}
	return q.SaveRefunds(ctx, refunds)
}
