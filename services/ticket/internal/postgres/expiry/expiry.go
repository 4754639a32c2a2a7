// Package expiry ends unpaid reservations whose time is over, or whose event has ended.
package expiry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/reservation"
)

var _ reservation.Expirer = (*Store)(nil)

// Store ends unpaid reservations, and keeps a list of the reservations that it could not end.
type Store struct {
	database *postgres.Database
	failures expiryFailures
}

// NewStore makes a Store on the database d.
func NewStore(d *postgres.Database) *Store {
	return &Store{database: d, failures: expiryFailures{rows: make(map[uuid.UUID]expiryFailure)}}
}

// ExpireDue expires up to max reservations whose time is over. It skips those that another
// transaction has locked, so that any number of replicas may call it. It reports each reservation
// that contradicts other rows in the error, and skips it for a minute so that it blocks no others.
func (s *Store) ExpireDue(ctx context.Context, max int) (int, error) {
	now, q := s.database.Now(), s.database.Queries()
	arg := db.DueReservationsParams{Now: q.AsOf, Max: int32(max), Skipped: s.failures.paused(now)} //nolint:gosec // a batch
	ids, err := q.DueReservations(ctx, arg)
	if err != nil {
		return 0, pkgpostgres.Err(err)
	}
	if len(ids) < max { // ids has all due reservations
		s.failures.retain(ids, now)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	return s.endEach(ctx, ids, func(l *purchases.LockedReservations) int { return len(l.Expire()) })
}

// CancelWithEvent cancels up to max unpaid reservations of an event that has ended.
func (s *Store) CancelWithEvent(ctx context.Context, eventID string, max int) (int, error) {
	ids, err := s.database.Queries().HoldsOf(ctx, db.HoldsOfParams{EventID: eventID, Max: int32(max)}) //nolint:gosec // a batch
	if err != nil || len(ids) == 0 {
		return 0, pkgpostgres.Err(err)
	}
	return s.endEach(ctx, ids, (*purchases.LockedReservations).CancelWithEvent)
}

// endEach calls end for reservations and saves them, all in one transaction. If one of them
// contradicts other rows, it repeats this with a separate transaction for each.
func (s *Store) endEach(ctx context.Context, ids []uuid.UUID, end func(*purchases.LockedReservations) int) (int, error) {
	ended, err := s.endInTx(ctx, ids, end)
	if !isContradiction(err) {
		return ended, err
	}
	var contradictions []error
	for _, id := range ids {
		n, err := s.endInTx(ctx, []uuid.UUID{id}, end)
		switch ended += n; {
		case isContradiction(err):
			s.failures.addInconsistent(id, s.database.Now())
			contradictions = append(contradictions, fmt.Errorf("reservation %s: %w", id, err))
		case err != nil:
			return ended, err
		}
	}
	return ended, errors.Join(contradictions...)
}

func (s *Store) Inconsistent() int { return s.failures.inconsistent() }

// endInTx locks the reservations that no other transaction has locked, calls end to change them,
// and saves them. It returns the number of reservations that have ended.
func (s *Store) endInTx(ctx context.Context, ids []uuid.UUID, end func(*purchases.LockedReservations) int) (int, error) {
	ended := 0
	var locked *purchases.LockedReservations
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) (err error) {
		if locked, err = purchases.LockAvailableReservations(ctx, tx, ids); err != nil {
			return err
		}
		ended = end(locked)
		events, err := locked.Save(ctx, tx)
		if err != nil {
			return err
		}
		return purchases.InsertReservationEvents(ctx, tx, events)
	})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if locked.Find(id) == nil {
			s.failures.addLocked(id, s.database.Now())
		} else {
			s.failures.remove(id)
		}
	}
	if ended > 0 {
		s.database.Published()
	}
	return ended, nil
}

// isContradiction reports whether the state of a row caused the error: a conditional write found
// another state, or a constraint or value was refused (SQLSTATE classes 23 and 22).
func isContradiction(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, postgres.ErrContradiction) ||
		errors.As(err, &pe) && (strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "23"))
}
