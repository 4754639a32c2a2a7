// Package expiry ends due reservations.
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
	"urr.guru/services/ticket/internal/postgres/reservations"
	"urr.guru/services/ticket/internal/reservation"
)

var _ reservation.Expirer = (*Store)(nil)

// Store expires reservations, and remembers those that it could not expire.
type Store struct {
	database *postgres.Database
	failures failures
}

// NewStore makes a Store.
func NewStore(d *postgres.Database) *Store {
	return &Store{database: d, failures: failures{rows: make(map[uuid.UUID]failure)}}
}

// ExpireDue skips reservations that another transaction has locked, so that any number of replicas
// may sweep. A reservation that contradicts other rows is named in the error, and then skipped for
// a minute, so that it does not block the others.
func (s *Store) ExpireDue(ctx context.Context, max int) (int, error) {
	now, q := s.database.Now(), s.database.Queries()
	arg := db.DueReservationsParams{Now: q.AsOf, Max: int32(max), Skipped: s.failures.paused(now)} //nolint:gosec // a batch
	ids, err := q.DueReservations(ctx, arg)
	if err != nil {
		return 0, pkgpostgres.Err(err)
	}
	if len(ids) < max { // these are all due reservations
		s.failures.retain(ids, now)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	return s.endEach(ctx, ids, func(l *reservations.Locked) int { return len(l.Expire()) })
}

// CancelWithEvent ends up to max unpaid reservations of an event that has ended, as ExpireDue does.
func (s *Store) CancelWithEvent(ctx context.Context, eventID string, max int) (int, error) {
	ids, err := s.database.Queries().HoldsOf(ctx, db.HoldsOfParams{EventID: eventID, Max: int32(max)}) //nolint:gosec // a batch
	if err != nil || len(ids) == 0 {
		return 0, pkgpostgres.Err(err)
	}
	return s.endEach(ctx, ids, (*reservations.Locked).CancelWithEvent)
}

// endEach ends reservations in one transaction, or, if one of them contradicts other rows, each in a
// transaction of its own.
func (s *Store) endEach(ctx context.Context, ids []uuid.UUID, end func(*reservations.Locked) int) (int, error) {
	ended, err := s.end(ctx, ids, end)
	if !isContradiction(err) {
		return ended, err
	}
	var bad []error
	for _, id := range ids {
		n, err := s.end(ctx, []uuid.UUID{id}, end)
		switch ended += n; {
		case isContradiction(err):
			s.failures.addInconsistent(id, s.database.Now())
			bad = append(bad, fmt.Errorf("reservation %s: %w", id, err))
		case err != nil:
			return ended, err
		}
	}
	return ended, errors.Join(bad...)
}

func (s *Store) Inconsistent() int { return s.failures.inconsistent() }

// end ends those reservations that end decides on and no other transaction has locked.
func (s *Store) end(ctx context.Context, ids []uuid.UUID, end func(*reservations.Locked) int) (int, error) {
	ended := 0
	var locked *reservations.Locked
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) (err error) {
		if locked, err = reservations.LockAvailable(ctx, tx, ids); err != nil {
			return err
		}
		ended = end(locked)
		events, err := locked.Save(ctx, tx)
		if err != nil {
			return err
		}
		return reservations.InsertEvents(ctx, tx, events)
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

// isContradiction reports errors that the state of a row causes: a conditional write that found
// another state, a violated constraint (SQLSTATE class 23), or an invalid value (class 22).
func isContradiction(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, postgres.ErrContradiction) ||
		errors.As(err, &pe) && (strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "23"))
}
