// Package expiry ends reservations whose time is over.
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

// Store expires reservations, and remembers those that could not be.
type Store struct {
	database *postgres.Database
	stuck    stuck
}

// NewStore makes a Store.
func NewStore(d *postgres.Database) *Store { return &Store{database: d} }

// ExpireDue implements reservation.Expirer. Reservations that another transaction has locked are
// left to it, so that any number of replicas may sweep. One that contradicts other rows is skipped,
// and tried again after a minute, so that it does not block the others; the error then names it,
// once each time it is tried.
func (s *Store) ExpireDue(ctx context.Context, max int) (int, error) {
	now, q := s.database.Now(), s.database.Queries()
	arg := db.DueReservationsParams{Now: q.AsOf, Max: int32(max), Skipped: s.stuck.skipped(now)} //nolint:gosec // a batch
	ids, err := q.DueReservations(ctx, arg)
	if err != nil {
		return 0, pkgpostgres.Err(err)
	}
	s.stuck.retain(ids, len(ids) == max, now)
	if len(ids) == 0 {
		return 0, nil
	}
	expired, err := s.expire(ctx, ids)
	if !isContradiction(err) {
		return expired, err
	}
	var bad []error
	for _, id := range ids { // at least one of them is inconsistent: one by one
		n, err := s.expire(ctx, []uuid.UUID{id})
		switch expired += n; {
		case isContradiction(err):
			s.stuck.addInconsistent(id, now)
			bad = append(bad, fmt.Errorf("reservation %s: %w", id, err))
		case err != nil:
			return expired, err
		}
	}
	return expired, errors.Join(bad...)
}

func (s *Store) Inconsistent() int { return s.stuck.inconsistent() }

// expire ends those of the reservations that are due and that no other transaction has locked.
func (s *Store) expire(ctx context.Context, ids []uuid.UUID) (int, error) {
	expired := 0
	var locked *reservations.Locked
	err := s.database.InTx(ctx, func(ctx context.Context, tx *postgres.Tx) (err error) {
		if locked, err = reservations.LockAvailable(ctx, tx, ids); err != nil {
			return err
		}
		expired = len(locked.Expire())
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
			s.stuck.addLocked(id, s.database.Now())
		} else {
			s.stuck.forget(id)
		}
	}
	if expired > 0 {
		s.database.Published()
	}
	return expired, nil
}

// isContradiction reports errors that come of a row's own state: a conditional write that found
// something else, a violated constraint (SQLSTATE 23), or an impossible value (22).
func isContradiction(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, postgres.ErrContradiction) ||
		errors.As(err, &pe) && (strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "23"))
}
