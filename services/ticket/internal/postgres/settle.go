package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/reservation"
)

// Settle applies payment events in one transaction, in their order, each once: those that the group has settled before are passed over.
func (s *Store) Settle(ctx context.Context, group string, events []reservation.PaymentEvent) error {
	err := postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		keys := make([]string, len(events))
		for i, e := range events {
			keys[i] = e.Key
		}
		fresh, err := inbox.ClaimAll(ctx, tx, keys, group)
		if err != nil {
			return err
		}
		if err := s.settle(ctx, tx, unseen(events, fresh)); err != nil {
			return err
		}
		return failpoint.Err("ticket.confirm.before_commit")
	})
	if err != nil {
		return err
	}
	failpoint.Hit("ticket.confirm.after_commit")
	s.published()
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

func (s *Store) settle(ctx context.Context, tx pgx.Tx, events []reservation.PaymentEvent) error {
	if len(events) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(events))
	for i, e := range events {
		ids[i] = e.ReservationID
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	q := s.queries(tx)
	set, err := lock(ctx, q, slices.Compact(ids), false)
	if err != nil {
		return err
	}
	now, err := q.Now(ctx, q.present()) // nothing may have been found to read it from
	if err != nil {
		return err
	}
	if err := markGivenBack(ctx, q, events); err != nil {
		return err
	}
	var unknown []reservation.Event
	for _, e := range events {
		switch r := set.find(e.ReservationID); {
		case r != nil:
			e.Settle(r, now.UTC())
		case !e.Refunded:
			unknown = append(unknown, reservation.RejectUnknown(e.ReservationID, e.Payment, now.UTC()))
		}
	}
	happened, err := set.save(ctx, q)
	if err != nil {
		return err
	}
	return s.insertEvents(ctx, tx, append(happened, unknown...))
}

// markGivenBack marks the payments whose refund was heard of before: their confirmation had been put aside. Of all that is told of a
// payment this is the only order that matters. The reservations must be locked.
func markGivenBack(ctx context.Context, q *queries, events []reservation.PaymentEvent) error {
	ids := make([]uuid.UUID, len(events))
	for i, e := range events {
		ids[i] = e.Payment.ID
	}
	rows, err := q.RefundsOf(ctx, ids)
	if err != nil {
		return err
	}
	refunded := make(map[uuid.UUID]int64, len(rows))
	for _, r := range rows {
		refunded[r.PaymentID] = r.Version
	}
	var fresh db.SaveRefundsParams
	for i, e := range events {
		if e.Refunded {
			refunded[e.Payment.ID] = max(refunded[e.Payment.ID], e.Version)
			fresh.PaymentIds, fresh.Versions = append(fresh.PaymentIds, e.Payment.ID), append(fresh.Versions, e.Version)
			continue
		}
		events[i].Payment.GivenBack = e.Version < refunded[e.Payment.ID]
	}
	if len(fresh.PaymentIds) == 0 {
		return nil
	}
	return q.SaveRefunds(ctx, fresh)
}
