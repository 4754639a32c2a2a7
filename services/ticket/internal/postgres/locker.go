package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/postgres/db"
)

// phase is a kind of lock. Every transaction takes the kinds in the order below, so that no two
// transactions wait for each other. It may take the locks of a kind in several statements, and none
// of a kind once it has taken those of a later one. Each statement takes its locks in an order of
// its own: seats by their index, other rows by id, advisory locks by key.
type phase int

const (
	uploads      phase = iota + 1 // of lists of entitlements
	events                        // rows of events
	lines                         // settings of lines
	claims                        // of refunds
	payments                      // advisory: one that is confirmed or refunded by hand, and may have no row yet
	users                         // advisory: of (event, user), or (series, user) if the event has a series
	seats                         // by their index
	sections                      // with their counters: those of general admission stand for seats
	reservations                  // by id
	tickets                       // by id; whatever leaves VALID does so under this lock
	transfers                     // by id
	members                       // advisory: of (plan, user)
	memberships                   // by id
	counters                      // of sections with seats: many wait for them, so they come last
)

// The locks of rows. Statements that are not here take none, or are listed with a reason in the test
// of this file.
//
//nolint:gochecknoglobals // a table
var (
	LockUpload                = lock[uuid.UUID, db.LockUploadRow]{uploads, (*db.Queries).LockUpload}
	LockEvent                 = lock[db.LockEventParams, db.LockEventRow]{events, (*db.Queries).LockEvent}
	LockDoor                  = lock[db.LockDoorParams, db.LockDoorRow]{events, (*db.Queries).LockDoor}
	LockLine                  = lock[string, none]{lines, exec((*db.Queries).LockLine)}
	LockClaims                = lock[[]uuid.UUID, []db.LockClaimsRow]{claims, (*db.Queries).LockClaims}
	LockSeats                 = lock[db.LockSeatsParams, []db.LockSeatsRow]{seats, (*db.Queries).LockSeats}
	LockSeatsOf               = lock[[]uuid.UUID, []uuid.UUID]{seats, (*db.Queries).LockSeatsOf}
	LockSeatsForHouse         = lock[db.LockSeatsForHouseParams, []db.LockSeatsForHouseRow]{seats, (*db.Queries).LockSeatsForHouse}
	LockReturnedSeats         = lock[db.LockReturnedSeatsParams, none]{seats, exec((*db.Queries).LockReturnedSeats)}
	LockSections              = lock[db.LockSectionsParams, []db.LockSectionsRow]{sections, (*db.Queries).LockSections}
	LockSectionsOf            = lock[[]uuid.UUID, none]{sections, exec((*db.Queries).LockSectionsOf)}
	LockStanding              = lock[db.LockStandingParams, []db.LockStandingRow]{sections, (*db.Queries).LockStanding}
	LockStandingSections      = lock[db.LockStandingSectionsParams, none]{sections, exec((*db.Queries).LockStandingSections)}
	LockReservations          = lock[db.LockReservationsParams, []db.LockReservationsRow]{reservations, (*db.Queries).LockReservations}
	LockComp                  = lock[[]byte, db.LockCompRow]{reservations, (*db.Queries).LockComp}
	LockTickets               = lock[[]uuid.UUID, []db.LockTicketsRow]{tickets, (*db.Queries).LockTickets}
	GiveTickets               = lock[db.GiveTicketsParams, []db.GiveTicketsRow]{tickets, (*db.Queries).GiveTickets}
	LockTransfers             = lock[[]uuid.UUID, []db.Transfer]{transfers, (*db.Queries).LockTransfers}
	LockOffersOf              = lock[[]uuid.UUID, []db.Transfer]{transfers, (*db.Queries).LockOffersOf}
	LockOffersOfEvent         = lock[db.LockOffersOfEventParams, []db.Transfer]{transfers, (*db.Queries).LockOffersOfEvent}
	LockMemberships           = lock[[]uuid.UUID, []db.Membership]{memberships, (*db.Queries).LockMemberships}
	LockMembershipsOfPayment  = lock[uuid.UUID, []db.Membership]{memberships, (*db.Queries).LockMembershipsOfPayment}
	LockPendingMembership     = lock[db.LockPendingMembershipParams, []db.Membership]{memberships, (*db.Queries).LockPendingMembership}
	LockMembershipsWithOthers = lock[db.LockMembershipsWithOthersParams, []db.Membership]{memberships, (*db.Queries).LockMembershipsWithOthers}

	moveSold = lock[db.MoveSoldParams, int64]{counters, (*db.Queries).MoveSold}
)

// lock is a statement that takes locks of one phase.
type lock[Arg, Rows any] struct {
	phase phase
	run   func(*db.Queries, context.Context, Arg) (Rows, error)
}

// Take runs the statement, or returns ErrLockOrder.
func (l lock[Arg, Rows]) Take(ctx context.Context, tx *Tx, arg Arg) (rows Rows, err error) {
	if err := tx.advance(l.phase); err != nil {
		return rows, err
	}
	return l.run(tx.Queries.Queries, ctx, arg)
}

// none is what a statement returns that returns no rows.
type none struct{}

func exec[Arg any](run func(*db.Queries, context.Context, Arg) error) func(*db.Queries, context.Context, Arg) (none, error) {
	return func(q *db.Queries, ctx context.Context, arg Arg) (none, error) { return none{}, run(q, ctx, arg) }
}

// ErrLockOrder means that a transaction takes a lock too late, which is a bug: two such transactions
// could wait for each other.
var ErrLockOrder = errors.New("a lock is taken after one that must come later")

// advance records that the transaction takes locks of a phase now.
func (tx *Tx) advance(to phase) error {
	if to < tx.reached {
		return fmt.Errorf("phase %d after phase %d: %w", to, tx.reached, ErrLockOrder)
	}
	tx.reached = to
	return nil
}
