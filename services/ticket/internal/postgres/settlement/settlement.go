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

// Store keeps the ids of applied payment events, and the refunded payments.
type Store struct{ database *postgres.Database }

// NewStore makes a Store.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

// Settle applies payment events to their reservations in one transaction, without those that the
// consumer group has settled before.
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
		if err := settle(ctx, tx, firstDeliveries(events, fresh)); err != nil {
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

// firstDeliveries returns the events whose keys are fresh, each once.
func firstDeliveries(events []reservation.PaymentEvent, fresh map[string]bool) (first []reservation.PaymentEvent) {
	for _, e := range events {
		if fresh[e.Key] {
			delete(fresh, e.Key)
			first = append(first, e)
		}
	}
	return first
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
	now, err := tx.Now(ctx, tx.ClockTime()) // not locked.Now, which is zero when no reservation exists
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
	saved, err := locked.Save(ctx, tx)
	if err != nil {
		return err
	}
	return reservations.InsertEvents(ctx, tx, append(saved, rejected...))
}

// refundsOf reads, by payment id, the versions of the refunded ones among the events' payments. The
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

// saveRefunds stores which payments were refunded, for confirmations that are delivered after that.
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
