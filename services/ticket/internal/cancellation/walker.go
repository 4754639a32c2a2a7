// Package cancellation cleans up after cancelled events: it ends unpaid reservations and offers of
// tickets, and refunds the tickets.
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
	// holdBatch is the maximum number of unpaid reservations that one transaction ends.
	holdBatch = 200
	// ticketBatch is the most tickets of one event whose refunds begin together, which happens at most
	// once a second. So the Kafka events of its refunds do not delay those of other events. The
	// payment service sends refunds to the provider more slowly anyway.
	ticketBatch = 100
	// leaseTime is how long a replica has an event for itself. Work that takes longer does no harm:
	// each transaction rechecks the rows that it has locked.
	leaseTime = 10 * time.Second
)

// OwedOrder is a reservation with those of its tickets that must still be refunded: tickets that
// are valid, and tickets for which money is still owed.
type OwedOrder struct {
	ReservationID uuid.UUID
	TicketIDs     []uuid.UUID
}

// Position says where to continue with the orders of an ended event, which are sorted by user.
type Position struct {
	EventID string
	// FromUser is the user with whose orders to continue; empty: start with the first user.
	FromUser string
}

// Remaining counts the reservations of cancelled events that must still be ended.
type Remaining struct {
	// Holds are unpaid reservations; Orders are paid ones of which a place was not given back.
	Holds, Orders int64
}

// Store reads and ends the reservations, offers and tickets of cancelled events.
type Store interface {
	// EndCancelled makes cancelled events ENDED when the time to undo is over, and returns their ids.
	EndCancelled(ctx context.Context) ([]string, error)
	// Lease reserves an ended event for this replica, and returns where to continue; ok is false if
	// no ended event is due.
	Lease(ctx context.Context, leaseTime time.Duration) (at Position, ok bool, err error)
	// EndLease ends a lease and stores where to continue. If moreLeft is false, the event is leased
	// again after pauses that become longer, since more work may still appear.
	EndLease(ctx context.Context, next Position, moreLeft bool) error
	// CancelOffers cancels the offers of tickets to other users for which no payment is under way.
	CancelOffers(ctx context.Context, eventID string) error
	// Orders returns the next orders, with up to max tickets in all, and the FromUser of the next
	// Position; empty: there are no more orders.
	Orders(ctx context.Context, at Position, max int) (orders []OwedOrder, nextUser string, err error)
	// Refund ends the tickets of an order and records the refund that is owed, in one transaction.
	Refund(ctx context.Context, order OwedOrder) error
	// CountRemaining counts what is left of all ended events.
	CountRemaining(ctx context.Context) (Remaining, error)
}

// HoldCanceller ends unpaid reservations.
type HoldCanceller interface {
	// CancelWithEvent ends up to max unpaid reservations of an event, and returns their number.
	CancelWithEvent(ctx context.Context, eventID string, max int) (int, error)
}

// Walker is the worker that ends cancelled events when the time to undo the cancellation is over.
// It looks at an ended event again and again, since new work may appear: a payment may become a
// ticket while the event ends, and a refund that began before may be aborted.
type Walker struct {
	Store Store
	Holds HoldCanceller
	Every time.Duration
	Log   *slog.Logger
}

// Run calls Walk again and again until ctx ends.
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
		at, ok, err := w.Store.Lease(ctx, leaseTime)
		if err != nil || !ok {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, w.walkOne(ctx, at))
	}
	return errors.Join(errs...)
}

// walkOne ends the next reservations, offers and orders of an event, from the position on. A
// reservation or an order that cannot be ended does not stop the others.
func (w *Walker) walkOne(ctx context.Context, at Position) error {
	var errs []error
	ended := 0
	if at.FromUser == "" { // once is enough: an ended event gets no new holds
		var err error
		ended, err = w.endUnpaid(ctx, at.EventID)
		errs = append(errs, err)
	}
	orders, nextUser, err := w.Store.Orders(ctx, at, ticketBatch)
	errs = append(errs, err)
	for _, o := range orders {
		errs = append(errs, w.Store.Refund(ctx, o))
	}
	failed := errors.Join(errs...) // if anything failed, more may be left
	moreLeft := failed != nil || ended+len(orders) > 0 || at.FromUser != ""
	return errors.Join(failed, w.Store.EndLease(ctx, Position{EventID: at.EventID, FromUser: nextUser}, moreLeft))
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
