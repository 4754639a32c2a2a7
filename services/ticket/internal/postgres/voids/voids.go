// Package voids stores which tickets operators have ended.
package voids

import (
	"context"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/failpoint"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/void"
)

var _ void.Store = (*Store)(nil)

// Store ends tickets in PostgreSQL.
type Store struct{ database *postgres.Database }

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

func (s *Store) Void(ctx context.Context, req void.Request) (voided void.Voided, err error) {
	err = s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) error {
		if voided, err = voidTickets(ctx, tx, req); err != nil {
			return err
		}
		return failpoint.Err("ticket.void.before_commit")
	})
	if err != nil {
		return void.Voided{}, err
	}
	failpoint.Hit("ticket.void.after_commit")
	s.database.Published()
	return voided, nil
}

func voidTickets(ctx context.Context, tx *postgres.Tx, req void.Request) (void.Voided, error) {
	order, err := orderOf(ctx, tx, req)
	if err != nil {
		return void.Voided{}, err
	}
	lockedOrder, err := purchases.LockReservations(ctx, tx, []uuid.UUID{order})
	if err != nil {
		return void.Voided{}, err
	}
	r := lockedOrder.Find(order)
	if r == nil {
		return void.Voided{}, reservation.ErrNotFound
	}
	locked, err := lockTickets(ctx, tx, req)
	if err != nil {
		return void.Voided{}, err
	}
	closings, now, err := postgres.Closings(ctx, tx.Queries, []string{r.EventID})
	if err != nil {
		return void.Voided{}, err
	}
	voided, err := void.Decide(req, r, locked.All(), closings[r.EventID], now)
	if err != nil || len(voided.New) == 0 {
		return voided, err
	}
	return voided, save(ctx, tx, req, voided.New, lockedOrder, locked, now)
}

// orderOf returns the order of the request, or of its ticket.
func orderOf(ctx context.Context, tx *postgres.Tx, req void.Request) (uuid.UUID, error) {
	if req.TicketID == uuid.Nil {
		return req.ReservationID, nil
	}
	orders, err := tx.ReservationsOf(ctx, []uuid.UUID{req.TicketID}) // a ticket's order never changes
	if err != nil {
		return uuid.Nil, err
	}
	if len(orders) == 0 {
		return uuid.Nil, ticket.ErrNotFound
	}
	return orders[0], nil
}

// lockTickets locks the ticket of the request, or all tickets of its order. While it waits, tickets
// may be passed on, which adds new ones to the order. So it reads their ids again until it has all.
func lockTickets(ctx context.Context, tx *postgres.Tx, req void.Request) (*purchases.LockedTickets, error) {
	if req.TicketID != uuid.Nil {
		return purchases.LockTickets(ctx, tx, []uuid.UUID{req.TicketID})
	}
	for n := -1; ; {
		ids, err := tx.TicketIDsOfOrder(ctx, req.ReservationID)
		if err != nil {
			return nil, err
		}
		locked, err := purchases.LockTickets(ctx, tx, ids)
		if err != nil || len(ids) == n {
			return locked, err
		}
		n = len(ids)
	}
}

func save(
	ctx context.Context, tx *postgres.Tx, req void.Request, voided []uuid.UUID, order *purchases.LockedReservations, locked *purchases.LockedTickets, now time.Time,
) error {
	if err := locked.Save(ctx, tx.Queries); err != nil {
		return err
	}
	if err := tx.InsertVoids(ctx, db.InsertVoidsParams{TicketIds: voided, Operator: req.Operator, Reason: req.Reason, VoidedAt: now}); err != nil {
		return err
	}
	if err := purchases.EndOffersOf(ctx, tx, locked, now); err != nil {
		return err
	}
	events, err := order.Save(ctx, tx)
	if err != nil {
		return err
	}
	return purchases.InsertReservationEvents(ctx, tx, events)
}
