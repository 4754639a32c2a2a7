// Package cancellation ends what is left of cancelled events: unpaid reservations, offers, and tickets,
// whose money goes back.
package cancellation

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/loop"
)

const (
	// holdBatch bounds the unpaid reservations that one transaction ends.
	holdBatch = 200
	// ticketBatch bounds the tickets whose refunds one walk begins, at most one walk a second of an event.
	// So the refunds of a large event do not delay other events of the outbox and of payment's consumer;
	// payment sends them more slowly anyway.
	ticketBatch = 100
	// lease is how long no other replica walks an event. One that takes longer does no harm: each
	// transaction looks again at the rows that it has locked.
	lease = 10 * time.Second
)

// Order has tickets of one reservation that admit somebody, or whose money is owed.
type Order struct {
	ReservationID uuid.UUID
	TicketIDs     []uuid.UUID
}

// Position is where the walk of an ended event goes on.
type Position struct {
	EventID string
	// After is the last user whose orders were reached; empty: it begins anew.
	After string
}

// Left is what is left of ended events.
type Left struct {
	// Holds are unpaid reservations; Orders are paid ones of which a place was not given back.
	Holds, Orders int64
}

// Store has the rows of cancelled events.
type Store interface {
	// EndCancelled ends the cancelled events whose grace is over, and returns them.
	EndCancelled(ctx context.Context) ([]string, error)
	// Lease returns an ended event that has not been looked at for a while; ok is false without one.
	Lease(ctx context.Context, lease time.Duration) (at Position, ok bool, err error)
	// Return ends a lease. An event of which nothing is left is leased less and less often, but always
	// again.
	Return(ctx context.Context, at Position, left bool) error
	// CancelOffers cancels offers that nobody is paying for.
	CancelOffers(ctx context.Context, eventID string) error
	// Orders returns orders with up to max tickets, and the user after whom the walk goes on; empty when
	// it has reached the end.
	Orders(ctx context.Context, at Position, max int) (orders []Order, after string, err error)
	// Refund ends the tickets of an order, in one transaction: it claims what is owed.
	Refund(ctx context.Context, order Order) error
	// Left counts what is left of all ended events.
	Left(ctx context.Context) (Left, error)
}

// Holds ends unpaid reservations.
type Holds interface {
	// CancelWithEvent ends up to max unpaid reservations of an event, and returns their number.
	CancelWithEvent(ctx context.Context, eventID string, max int) (int, error)
}

// Walker ends cancelled events when their grace is over, and what is left of them. Nothing says that an
// event is done: the walker looks at it again and again, since a payment may become a ticket while the
// event ends, and a refund that began before may be aborted.
type Walker struct {
	Store Store
	Holds Holds
	Every time.Duration
	Log   *slog.Logger
}

// Run walks until ctx ends.
func (w *Walker) Run(ctx context.Context) error {
	return loop.Try(ctx, w.Every, w.Log, "cancelled events not walked", w.Walk)
}

// Walk ends the events whose grace is over, and walks ended events until none is due. What fails does not
// stop the other events.
func (w *Walker) Walk(ctx context.Context) error {
	var errs []error
	for ctx.Err() == nil {
		ended, err := w.Store.EndCancelled(ctx)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, id := range ended {
			w.Log.InfoContext(ctx, "the refunds of a cancelled event begin", "event", id)
		}
		at, ok, err := w.Store.Lease(ctx, lease)
		if err != nil || !ok {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, w.walkOne(ctx, at))
	}
	return errors.Join(errs...)
}

// walkOne does a part of what is left of an event. A reservation or an order that cannot be ended does
// not stop the others.
func (w *Walker) walkOne(ctx context.Context, at Position) error {
	var errs []error
	ended := 0
	if at.After == "" { // nothing new is held meanwhile
		var err error
		ended, err = w.endUnpaid(ctx, at.EventID)
		errs = append(errs, err)
	}
	orders, after, err := w.Store.Orders(ctx, at, ticketBatch)
	errs = append(errs, err)
	for _, o := range orders {
		errs = append(errs, w.Store.Refund(ctx, o))
	}
	failed := errors.Join(errs...) // what was not reached may be left too
	left := failed != nil || ended+len(orders) > 0 || at.After != ""
	return errors.Join(failed, w.Store.Return(ctx, Position{EventID: at.EventID, After: after}, left))
}

// endUnpaid ends the unpaid reservations and the offers of an event.
func (w *Walker) endUnpaid(ctx context.Context, id string) (ended int, err error) {
	var errs []error
	for n := holdBatch; n == holdBatch && ctx.Err() == nil; ended += n {
		if n, err = w.Holds.CancelWithEvent(ctx, id, holdBatch); err != nil {
			errs = append(errs, err)
		}
	}
	return ended, errors.Join(append(errs, w.Store.CancelOffers(ctx, id))...)
}
