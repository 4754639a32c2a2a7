// Package cancellation ends what is left of cancelled events: it ends unpaid reservations and
// offers of tickets, and refunds the tickets.
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
	// ticketBatch bounds the tickets whose refunds one walk begins, at most one walk a second of an
	// event. So the refunds of a large event do not delay other events of the outbox and of
	// payment's consumer; payment sends them more slowly anyway.
	ticketBatch = 100
	// lease is for how long no other replica works on an event that one has leased. Work that takes
	// longer does no harm: each transaction looks again at the rows that it has locked.
	lease = 10 * time.Second
)

// Order is a reservation with its tickets that are still valid, or whose money is still owed.
type Order struct {
	ReservationID uuid.UUID
	TicketIDs     []uuid.UUID
}

// Position says where to continue with the orders of an ended event, which are walked by user.
type Position struct {
	EventID string
	// After is the last user whose orders were handled; empty: start with the first user.
	After string
}

// Remaining counts what must still be ended of events that were cancelled.
type Remaining struct {
	// Holds are unpaid reservations; Orders are paid ones of which a place was not given back.
	Holds, Orders int64
}

// Store reads and ends what belongs to cancelled events.
type Store interface {
	// EndCancelled makes cancelled events ENDED when the time to undo is over, and returns their ids.
	EndCancelled(ctx context.Context) ([]string, error)
	// Lease returns an ended event that no replica has worked on for a while; ok is false without one.
	Lease(ctx context.Context, lease time.Duration) (at Position, ok bool, err error)
	// Return ends a lease and stores the position. An event of which nothing is left is leased
	// again and again all the same, but less and less often.
	Return(ctx context.Context, at Position, left bool) error
	// CancelOffers cancels the offers of tickets to other users for which no payment is under way.
	CancelOffers(ctx context.Context, eventID string) error
	// Orders returns the next orders, with up to max tickets together, and the last user whose
	// orders it has returned; empty at the end.
	Orders(ctx context.Context, at Position, max int) (orders []Order, after string, err error)
	// Refund ends the tickets of an order and records the refund that is owed, in one transaction.
	Refund(ctx context.Context, order Order) error
	// Left counts what is left of all ended events.
	Left(ctx context.Context) (Remaining, error)
}

// Holds ends unpaid reservations.
type Holds interface {
	// CancelWithEvent ends up to max unpaid reservations of an event, and returns their number.
	CancelWithEvent(ctx context.Context, eventID string, max int) (int, error)
}

// Walker is the worker that ends cancelled events when the time to undo it is over. It looks at an
// ended event again and again, since nothing is ever final: a payment may become a ticket while the
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

// Walk ends the events whose time to undo is over, and then works on ended events until none is
// due. An event that fails does not stop the others.
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

// walkOne ends a part of what is left of an event, from the position on. A reservation or an order
// that cannot be ended does not stop the others.
func (w *Walker) walkOne(ctx context.Context, at Position) error {
	var errs []error
	ended := 0
	if at.After == "" { // once per walk is enough: an ended event gets no new holds
		var err error
		ended, err = w.endUnpaid(ctx, at.EventID)
		errs = append(errs, err)
	}
	orders, after, err := w.Store.Orders(ctx, at, ticketBatch)
	errs = append(errs, err)
	for _, o := range orders {
		errs = append(errs, w.Store.Refund(ctx, o))
	}
	failed := errors.Join(errs...) // if anything failed, more may be left
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
