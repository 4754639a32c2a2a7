package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"urr.guru/pkg/postgres"
	"urr.guru/services/ticket/internal/postgres/db"
)

// ExpireDue ends up to max reservations whose time is over and returns how many. Those that somebody else is at work on are left to them,
// so that any number of replicas may sweep. One that contradicts what else the database says is skipped, and looked at again after a
// minute: it must not keep the others from their end. The error then names it, once each time it is looked at.
func (s *Store) ExpireDue(ctx context.Context, max int) (int, error) {
	now := s.time()
	arg := db.DueReservationsParams{Now: s.queries(s.pool).now, Max: int32(max), Skipped: s.stuck.skipped(now)} //nolint:gosec // a batch
	ids, err := s.queries(s.pool).DueReservations(ctx, arg)
	if err != nil {
		return 0, postgres.Err(err)
	}
	s.stuck.found(ids, len(ids) == max, now)
	if len(ids) == 0 {
		return 0, nil
	}
	expired, err := s.expire(ctx, ids)
	if !contradicts(err) {
		return expired, err
	}
	var bad []error
	for _, id := range ids { // one of them is to blame
		n, err := s.expire(ctx, []uuid.UUID{id})
		switch expired += n; {
		case contradicts(err):
			s.stuck.contradicts(id, now)
			bad = append(bad, fmt.Errorf("reservation %s: %w", id, err))
		case err != nil:
			return expired, err
		}
	}
	return expired, errors.Join(bad...)
}

// Inconsistent is the number of due reservations that this process has found it cannot expire.
func (s *Store) Inconsistent() int { return s.stuck.inconsistent() }

// expire ends those of the reservations that are due and that nobody else is at work on.
func (s *Store) expire(ctx context.Context, ids []uuid.UUID) (int, error) {
	expired := 0
	var locked *changes
	err := postgres.InTxRetry(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		expired = 0
		q := s.queries(tx)
		if locked, err = lock(ctx, q, ids, true); err != nil {
			return err
		}
		for _, c := range locked.list {
			if c.now.Expire(locked.at) {
				expired++
			}
		}
		events, err := locked.save(ctx, q)
		if err != nil {
			return err
		}
		return s.insertEvents(ctx, tx, events)
	})
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if locked.find(id) == nil {
			s.stuck.left(id, s.time())
		} else {
			s.stuck.forget(id)
		}
	}
	if expired > 0 {
		s.published()
	}
	return expired, nil
}

// time is the clock of what only this process decides.
func (s *Store) time() time.Time {
	if s.clock != nil {
		return s.clock()
	}
	return time.Now()
}

// contradicts reports errors that come of a row's own state: a conditional write that found something else, a constraint (SQLSTATE 23), or
// a value that cannot be (22).
func contradicts(err error) bool {
	var pe *pgconn.PgError
	return errors.Is(err, errContradiction) ||
		errors.As(err, &pe) && (strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "23"))
}

const (
	// stuckAfter is how often a reservation may be left to whoever has it locked before it counts as inconsistent: some of its seats may
	// not be there to be locked at all. That is after two minutes.
	stuckAfter = 9
	// stuckPause is the longest time until it is looked at again.
	stuckPause = time.Minute
)

// stuck remembers the due reservations that could not be expired, so that a sweep finds others. Each replica finds out for itself.
type stuck struct {
	mu   sync.Mutex
	rows map[uuid.UUID]stuckRow
}

type stuckRow struct {
	tries int
	next  time.Time // when it is looked at again
}

// skipped are those that are not to be looked at yet; never nil, which SQL would take for NULL.
func (s *stuck) skipped(now time.Time) []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(s.rows))
	for id, r := range s.rows {
		if r.next.After(now) {
			ids = append(ids, id)
		}
	}
	return ids
}

// found forgets what was looked for and is not due any more. When there may be more than was found, nothing is known of the others.
func (s *stuck) found(due []uuid.UUID, more bool, now time.Time) {
	if more {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.rows, func(id uuid.UUID, r stuckRow) bool { return !r.next.After(now) && !slices.Contains(due, id) })
}

// left notes that somebody else had it locked: usually for a moment, so it is looked at again at once, then after 1, 2, 4 … s.
func (s *stuck) left(id uuid.UUID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[id]
	if r.tries++; r.tries > 2 {
		r.next = now.Add(min(time.Second<<min(r.tries-3, 10), stuckPause))
	}
	s.put(id, r)
}

func (s *stuck) contradicts(id uuid.UUID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(id, stuckRow{tries: stuckAfter, next: now.Add(stuckPause)})
}

// put is called with the lock held.
func (s *stuck) put(id uuid.UUID, r stuckRow) {
	if s.rows == nil {
		s.rows = make(map[uuid.UUID]stuckRow)
	}
	s.rows[id] = r
}

func (s *stuck) forget(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, id)
}

func (s *stuck) inconsistent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.rows {
		if r.tries >= stuckAfter {
			n++
		}
	}
	return n
}
