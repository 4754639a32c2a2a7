package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// invariants are queries that return the rows that violate a rule of the service. At any time there
// are none. They read only the tables, so that they do not repeat a mistake of the code. A query
// that needs the time gets it as $1.
var invariants = map[string]string{
	"sold + held + free = capacity, seat by seat": `
		SELECT s.event_id || ' ' || s.section
		FROM sections s JOIN events e USING (event_id)
		LEFT JOIN seats x ON x.event_id = s.event_id AND split_part(x.seat_id, '-', 1) = s.section
		WHERE e.seating = 'ASSIGNED'
		GROUP BY s.event_id, s.section, s.capacity
		HAVING count(x.*) <> s.capacity`,
	"sold + held + free = capacity, by the counters": `
		SELECT s.event_id || ' ' || s.section
		FROM sections s JOIN events e USING (event_id)
		LEFT JOIN reservations r ON r.event_id = s.event_id AND r.section = s.section
		WHERE e.seating = 'GENERAL'
		GROUP BY s.event_id, s.section, s.capacity, s.held, s.sold
		HAVING s.held <> coalesce(sum(r.quantity) FILTER (WHERE r.status IN ('HELD', 'PAYING')), 0)
		    OR s.sold <> coalesce(sum(r.quantity) FILTER (WHERE r.status = 'CONFIRMED'), 0)
		    OR s.held + s.sold > s.capacity`,
	"sold seats, by the counters": `
		SELECT s.event_id || ' ' || s.section
		FROM sections s JOIN events e USING (event_id)
		LEFT JOIN seats x ON x.event_id = s.event_id AND split_part(x.seat_id, '-', 1) = s.section
		WHERE e.seating = 'ASSIGNED'
		GROUP BY s.event_id, s.section, s.sold
		HAVING s.sold <> count(*) FILTER (WHERE x.status = 'SOLD')`,
	"a seat is what its reservation says": `
		SELECT x.seat_id FROM seats x LEFT JOIN reservations r USING (reservation_id)
		WHERE x.status <> 'FREE' AND (r.reservation_id IS NULL
		   OR (x.status = 'SOLD') <> (r.status = 'CONFIRMED')
		   OR (x.status = 'HELD') <> (r.status IN ('HELD', 'PAYING'))
		   OR (x.status = 'HELD' AND x.held_until <> r.expires_at))`,
	"a live reservation has its seats": `
		SELECT rs.reservation_id || ' ' || rs.seat_id
		FROM reservation_seats rs JOIN reservations r USING (reservation_id) LEFT JOIN seats x
		  ON x.event_id = rs.event_id AND x.seat_id = rs.seat_id
		WHERE rs.live <> (r.status IN ('HELD', 'PAYING', 'CONFIRMED')) OR rs.live <> (x.reservation_id IS NOT DISTINCT FROM r.reservation_id)`,
	"nobody has more than the limit": `
		SELECT r.event_id || ' ' || r.user_id
		FROM reservations r JOIN events e USING (event_id)
		WHERE r.status = 'CONFIRMED' OR (r.status IN ('HELD', 'PAYING') AND r.expires_at > $1)
		GROUP BY r.event_id, r.user_id, e.max_per_user
		HAVING sum(r.quantity) > e.max_per_user`,
	"every place that is paid has one valid ticket": `
		SELECT r.reservation_id::text
		FROM reservations r LEFT JOIN tickets t ON t.reservation_id = r.reservation_id AND t.status = 'VALID'
		GROUP BY r.reservation_id, r.status, r.quantity
		HAVING count(t.*) <> CASE WHEN r.status = 'CONFIRMED' THEN r.quantity ELSE 0 END`,
	"every status of a reservation was published": `
		SELECT r.reservation_id || ' ' || r.status
		FROM reservations r
		WHERE r.status NOT IN ('HELD', 'PAYING') AND NOT EXISTS (
			SELECT 1 FROM outbox o WHERE o.key = r.reservation_id::text AND o.payload::json->>'status' = r.status)
		   OR NOT EXISTS (SELECT 1 FROM outbox o WHERE o.key = r.reservation_id::text AND o.type = 'RESERVATION_CREATED')`,
	"events of a reservation have growing versions": `
		SELECT key FROM (SELECT key, entity_version, lag(entity_version) OVER (PARTITION BY key ORDER BY id) AS before FROM outbox) o
		WHERE entity_version <= before`,
}

// Violations checks all invariants in one snapshot of the database and lists the rows that violate
// them.
func (s *Service) Violations(ctx context.Context) (string, error) {
	var found []string
	err := pgx.BeginTxFunc(ctx, s.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// The first statement takes the snapshot. The time is read after it, so that no time in the
		// snapshot is later.
		if _, err := tx.Exec(ctx, `SELECT 1`); err != nil {
			return err
		}
		now := s.Clock.Now()
		for rule, sql := range invariants {
			var args []any
			if strings.Contains(sql, "$1") {
				args = append(args, now)
			}
			rows, err := tx.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			bad, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if len(bad) > 0 {
				found = append(found, rule+": "+strings.Join(bad, ", "))
			}
		}
		return nil
	})
	return strings.Join(found, "\n"), err
}

func (s *Service) RequireInvariants(t *testing.T) {
	t.Helper()
	found, err := s.Violations(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
}

// RequireNoDeadlocks fails if PostgreSQL has reported a deadlock, which the order of locks
// excludes. Other tests do not notice one, since the aborted transaction is retried.
func (s *Service) RequireNoDeadlocks(t *testing.T) {
	t.Helper()
	require.Zero(t, s.Count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
}
