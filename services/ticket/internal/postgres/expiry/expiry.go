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
	expired, err := s.expire(ctx, ids)
	if !isContradiction(err) {
		return expired, err
	}
	var bad []error
	for _, id := range ids { // at least one is inconsistent, so each gets its own transaction
		n, err := s.expire(ctx, []uuid.UUID{id})
		switch expired += n; {
		case isContradiction(err):
			s.failures.addInconsistent(id, now)
			bad = append(bad, fmt.Errorf("reservation %s: %w", id, err))
		case err != nil:
			return expired, err
		}
	}
	return expired, errors.Join(bad...)
}

func (s *Store) Inconsistent() int { return s.failures.inconsistent() }

// expire ends those reservations that are due and not locked by another transaction.
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
			s.failures.addLocked(id, s.database.Now())
		} else {
			s.failures.remove(id)
		}
	}
	if expired > 0 {
		s.database.Published()
	}
	return expired, nil
}

// isContradiction reports errors that the state of a row causes: a conditional write that found
// another state, a violated constraint (SQLSTATE class 23), or an invalid value (class 22).
func isContradiction(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, postgres.ErrContradiction) ||
		errors.As(err, &pe) && (strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "23"))
}
