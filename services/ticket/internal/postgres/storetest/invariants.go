package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// usedPlaces selects the number of places that count for each user's limit, by event.
const usedPlaces = `
	SELECT r.event_id, r.user_id, sum(r.quantity - r.released) AS places
	FROM reservations r
	WHERE r.origin = 'SALE' AND (r.status = 'CONFIRMED' OR (r.status IN ('HELD', 'PAYING') AND r.expires_at > $1))
	GROUP BY r.event_id, r.user_id
	UNION ALL
	SELECT k.event_id, k.user_id, count(DISTINCT (k.reservation_id, k.n))
	FROM (SELECT event_id, user_id, reservation_id, n FROM tickets
	      UNION ALL SELECT f.event_id, f.buyer, t.reservation_id, t.n FROM transfers f JOIN tickets t USING (ticket_id) WHERE f.status = 'AWAITING_PAYMENT') k
	JOIN places p ON p.reservation_id = k.reservation_id AND p.n = k.n AND p.live
	JOIN reservations r ON r.reservation_id = k.reservation_id
	WHERE r.origin = 'SALE' AND r.user_id <> k.user_id
	GROUP BY k.event_id, k.user_id`

// invariants has, by rule, a query that returns the rows that violate the rule. There must never be
// any. The queries use only SQL, so that they repeat no mistake of the Go code. $1 is the time.
var invariants = map[string]string{
	"sold + held + house + returning + free = capacity, seat by seat": `
		SELECT s.event_id || ' ' || s.section
		FROM sections s LEFT JOIN seats x ON x.event_id = s.event_id AND split_part(x.seat_id, '-', 1) = s.section
		WHERE s.seated
		GROUP BY s.event_id, s.section, s.capacity, s.sold, s.house, s.returns
		HAVING count(x.*) <> s.capacity
		    OR s.sold + s.house + s.returns + count(*) FILTER (WHERE x.status IN ('FREE', 'HELD', 'DELAYED')) <> s.capacity`,
	"sold + held + house + returning + free = capacity, by the counters": `
		SELECT s.event_id || ' ' || s.section
		FROM sections s LEFT JOIN reservations r ON r.event_id = s.event_id AND r.section = s.section
		WHERE NOT s.seated
		GROUP BY s.event_id, s.section, s.capacity, s.held, s.sold, s.house, s.returns
		HAVING s.held <> coalesce(sum(r.quantity) FILTER (WHERE r.status IN ('HELD', 'PAYING')), 0)
		                 + (SELECT count(*) FROM returns x WHERE x.event_id = s.event_id AND x.section = s.section AND x.unpaid)
		    OR s.sold <> coalesce(sum(r.quantity - r.released) FILTER (WHERE r.status = 'CONFIRMED'), 0)
		    OR s.held + s.sold + s.house + s.returns > s.capacity`,
	"sold, house and returned seats, by the counters": `
		SELECT s.event_id || ' ' || s.section
		FROM sections s LEFT JOIN seats x ON x.event_id = s.event_id AND split_part(x.seat_id, '-', 1) = s.section
		WHERE s.seated
		GROUP BY s.event_id, s.section, s.sold, s.house, s.returns
		HAVING s.sold <> count(*) FILTER (WHERE x.status = 'SOLD') OR s.house <> count(*) FILTER (WHERE x.status = 'HOUSE')
		    OR s.returns <> count(*) FILTER (WHERE x.status = 'RETURNED')`,
	"a place that was given back, or of an ended hold, has a time": `
		SELECT s.event_id || ' ' || s.section
		FROM sections s LEFT JOIN (SELECT * FROM returns WHERE NOT unpaid) r USING (event_id, section)
		GROUP BY s.event_id, s.section, s.returns
		HAVING s.returns <> count(r.*)
		UNION ALL
		SELECT x.seat_id FROM seats x FULL JOIN (SELECT * FROM returns WHERE seat_id IS NOT NULL) r USING (event_id, seat_id)
		WHERE coalesce(x.status, '') <> 'RETURNED' AND NOT r.unpaid OR coalesce(x.status, '') <> 'DELAYED' AND r.unpaid
		   OR x.status IN ('RETURNED', 'DELAYED') AND r.return_id IS NULL`,
	"a seat is what its reservation says": `
		SELECT x.seat_id FROM seats x LEFT JOIN reservations r USING (reservation_id)
		WHERE x.status IN ('HELD', 'SOLD') AND (r.reservation_id IS NULL
		   OR (x.status = 'SOLD') <> (r.status = 'CONFIRMED')
		   OR (x.status = 'HELD') <> (r.status IN ('HELD', 'PAYING'))
		   OR (x.status = 'HELD' AND x.held_until <> r.expires_at))`,
	"a live place has its seat": `
		SELECT p.reservation_id || ' ' || p.n
		FROM places p LEFT JOIN seats x ON x.event_id = p.event_id AND x.seat_id = p.seat_id
		WHERE p.seat_id IS NOT NULL AND p.live <> (x.reservation_id IS NOT DISTINCT FROM p.reservation_id)`,
	"a live reservation has the places that were not given back": `
		SELECT r.reservation_id::text
		FROM reservations r LEFT JOIN places p ON p.reservation_id = r.reservation_id AND p.live
		GROUP BY r.reservation_id, r.status, r.section, r.quantity, r.released
		HAVING count(p.*) <> CASE WHEN r.status = 'CONFIRMED' THEN r.quantity - r.released
		                          WHEN r.status IN ('HELD', 'PAYING') AND r.section = '' THEN r.quantity ELSE 0 END`,
	"nobody has more than the limit, counting every place once that a user holds, has, had, or is to get": `
		SELECT u.event_id || ' ' || u.user_id FROM (` + usedPlaces + `) u JOIN events e USING (event_id)
		GROUP BY u.event_id, u.user_id, e.max_per_user HAVING sum(u.places) > e.max_per_user`,
	"nobody has more than the limit of a series": `
		SELECT e.series_id || ' ' || u.user_id FROM (` + usedPlaces + `) u JOIN events e USING (event_id)
		GROUP BY e.series_id, u.user_id HAVING sum(u.places) > min(e.max_per_user_in_series)`,
	"every place that is paid admits one person": `
		SELECT p.reservation_id || ' ' || p.n
		FROM places p JOIN reservations r USING (reservation_id)
		LEFT JOIN tickets t ON t.reservation_id = p.reservation_id AND t.n = p.n AND t.status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED')
		GROUP BY p.reservation_id, p.n, p.live, r.status
		HAVING count(t.*) <> CASE WHEN p.live AND r.status = 'CONFIRMED' THEN 1 ELSE 0 END`,
	"a payment pays for its tickets, to the unit": `
		SELECT r.reservation_id::text
		FROM reservations r LEFT JOIN tickets t ON t.reservation_id = r.reservation_id AND t.payment_id = r.payment_id
		WHERE r.status IN ('CONFIRMED', 'REFUNDED', 'VOIDED') AND r.origin = 'SALE'
		GROUP BY r.reservation_id, r.amount, r.fee
		HAVING coalesce(sum(t.paid), 0) <> r.amount OR coalesce(sum(t.fee), 0) <> r.fee`,
	"a payment that pays for nothing has no ticket": `
		SELECT payment_id::text FROM ended_payments e WHERE EXISTS (SELECT 1 FROM tickets t WHERE t.payment_id = e.payment_id)`,
	// A late call may still reserve time for it, until a purchase that is not paid ends.
	"a payment that pays for nothing has no membership": `
		SELECT payment_id::text FROM ended_payments JOIN memberships USING (payment_id) WHERE status NOT IN ('PENDING', 'CANCELLED')`,
	"a membership is what its claim says": `
		SELECT m.membership_id || ' ' || m.status
		FROM memberships m FULL JOIN (SELECT * FROM refund_claims WHERE membership_id IS NOT NULL AND status IN ('BEGUN', 'DONE')) c USING (membership_id)
		WHERE (m.refund_id, m.given) IS DISTINCT FROM (c.refund_id, coalesce(c.membership_amount, 0))
		   OR m.status <> (CASE c.status WHEN 'BEGUN' THEN 'REFUNDING' WHEN 'DONE' THEN 'ENDED' ELSE m.status END)`,
	"a membership lasts its months": `
		SELECT membership_id::text FROM memberships
		WHERE ends_at <> (starts_at AT TIME ZONE 'Asia/Seoul' + make_interval(months => months)) AT TIME ZONE 'Asia/Seoul'`,
	"memberships of a user and plan follow each other": `
		SELECT m.membership_id::text
		FROM memberships m JOIN memberships o USING (user_id, plan_id)
		WHERE m.membership_id < o.membership_id AND m.status IN ('ACTIVE', 'REFUNDING') AND o.status IN ('ACTIVE', 'REFUNDING')
		  AND m.starts_at < o.ends_at AND o.starts_at < m.ends_at
		UNION ALL
		SELECT m.membership_id || ' waits for nothing'
		FROM memberships m
		WHERE m.status IN ('ACTIVE', 'REFUNDING') AND m.starts_at > $1 AND NOT EXISTS (
			SELECT 1 FROM memberships o
			WHERE (o.user_id, o.plan_id, o.ends_at) = (m.user_id, m.plan_id, m.starts_at) AND o.status IN ('ACTIVE', 'REFUNDING'))`,
	"the life of a membership was published once": `
		SELECT m.membership_id || ' ' || m.status
		FROM memberships m LEFT JOIN outbox o ON o.key = m.membership_id::text
		GROUP BY m.membership_id, m.status
		HAVING count(*) FILTER (WHERE o.type = 'MEMBERSHIP_ACTIVATED') <> (m.status IN ('ACTIVE', 'REFUNDING', 'ENDED'))::int
		    OR count(*) FILTER (WHERE o.type = 'MEMBERSHIP_ENDED') <> (m.status = 'ENDED')::int`,
	"what tickets give back is what claims and buyers have promised": `
		SELECT t.ticket_id::text
		FROM tickets t LEFT JOIN (SELECT unnest(ticket_ids) AS ticket_id, unnest(amounts) AS amount
		                          FROM refund_claims WHERE status IN ('BEGUN', 'DONE')
		                          UNION ALL SELECT ticket_id, price FROM transfers WHERE status = 'COMPLETED') c USING (ticket_id)
		GROUP BY t.ticket_id, t.given
		HAVING t.given <> coalesce(sum(c.amount), 0)`,
	"a ticket is what its claim says": `
		SELECT t.ticket_id || ' ' || t.status
		FROM tickets t LEFT JOIN refund_claims c ON c.refund_id = t.refund_id
		WHERE (t.status = 'REFUNDING' AND c.status IS DISTINCT FROM 'BEGUN')
		   OR (t.status = 'REFUNDED' AND t.refund_id IS NOT NULL AND c.status IS DISTINCT FROM 'DONE')
		   OR (t.status = 'REFUNDED' AND t.refund_id IS NULL AND t.given < t.paid)`,
	"a ticket is what its transfer says": `
		SELECT t.ticket_id || ' ' || t.status
		FROM tickets t LEFT JOIN transfers f ON f.ticket_id = t.ticket_id AND f.status IN ('OPEN', 'AWAITING_PAYMENT', 'COMPLETED')
		WHERE (t.status = 'TRANSFERRING') <> coalesce(f.charging, false)
		   OR (t.status = 'TRANSFERRED') <> (f.status IS NOT DISTINCT FROM 'COMPLETED')
		   OR (f.status IN ('OPEN', 'AWAITING_PAYMENT') AND t.status NOT IN ('VALID', 'TRANSFERRING'))`,
	"a ticket that was passed on is another's, for what was paid": `
		SELECT f.transfer_id::text
		FROM transfers f JOIN tickets o USING (ticket_id) LEFT JOIN tickets n ON n.ticket_id = f.new_ticket
		WHERE f.status = 'COMPLETED' AND ((n.prev, n.user_id, n.paid, n.reservation_id, n.n, n.seat_id, n.price)
		      IS DISTINCT FROM (f.ticket_id, f.buyer, f.price, o.reservation_id, o.n, o.seat_id, o.price)
		      OR (f.price > 0 AND n.payment_id IS DISTINCT FROM f.payment_id))`,
	"every end of a transfer was published once": `
		SELECT f.transfer_id || ' ' || f.status
		FROM transfers f
		WHERE f.status IN ('COMPLETED', 'CANCELLED', 'EXPIRED') AND 1 <> (
			SELECT count(*) FROM outbox o WHERE o.key = f.transfer_id::text AND o.type = CASE f.status WHEN 'COMPLETED' THEN 'TRANSFER_COMPLETED' ELSE 'TRANSFER_CANCELLED' END)`,
	"who was admitted has used the ticket": `
		SELECT s.ticket_id || ' ' || t.status
		FROM scans s JOIN events e USING (event_id) JOIN tickets t USING (ticket_id)
		WHERE s.result = 'ADMITTED' AND s.epoch = e.epoch AND t.status IN ('VALID', 'TRANSFERRING', 'TRANSFERRED')`,
	"every status of a reservation was published": `
		SELECT r.reservation_id || ' ' || r.status
		FROM reservations r
		WHERE r.status NOT IN ('HELD', 'PAYING') AND NOT EXISTS (
			SELECT 1 FROM outbox o WHERE o.key = r.reservation_id::text AND o.payload::json->>'status' = r.status)
		   OR NOT EXISTS (SELECT 1 FROM outbox o WHERE o.key = r.reservation_id::text AND o.type = 'RESERVATION_CREATED')`,
	"a voided ticket has its void": `
		SELECT t.ticket_id::text FROM tickets t LEFT JOIN voids v USING (ticket_id) WHERE (t.status = 'VOIDED') <> (v.ticket_id IS NOT NULL)`,
	"every voided place was published, and told its holder": `
		SELECT t.reservation_id::text
		FROM tickets t
		WHERE t.status = 'VOIDED'
		GROUP BY t.reservation_id
		HAVING count(*) <> (SELECT coalesce(sum((o.payload::json->>'quantity')::int), 0) FROM outbox o
		                    WHERE o.key = t.reservation_id::text AND o.type = 'TICKETS_VOIDED')
		    OR count(*) FILTER (WHERE t.user_id <> '') <> (SELECT coalesce(sum(json_array_length(n.data->'tickets')), 0) FROM notices n
		                                                   WHERE n.entity = t.reservation_id::text AND n.type = 'TICKETS_VOIDED')`,
	"every place given back or voided was published": `
		SELECT r.reservation_id::text
		FROM reservations r LEFT JOIN outbox o ON o.key = r.reservation_id::text AND o.type IN ('RESERVATION_CANCELLED', 'TICKETS_VOIDED')
		                                      AND o.payload::json->>'reason' IN ('REFUNDED', 'VOIDED')
		WHERE r.status IN ('CONFIRMED', 'REFUNDED', 'VOIDED')
		GROUP BY r.reservation_id, r.released
		HAVING coalesce(sum((o.payload::json->>'quantity')::int), 0) <> r.released`,
	"events of a reservation have growing versions": `
		SELECT key FROM (SELECT key, entity_version, lag(entity_version) OVER (PARTITION BY key ORDER BY id) AS before FROM outbox) o
		WHERE entity_version <= before`,
}

// Violations checks all invariants in one snapshot of the database and lists the rows that violate
// them.
func (s *Service) Violations(ctx context.Context) (string, error) {
	return Violations(ctx, s.Pool, s.Clock.Now)
}

// Violations checks all invariants in the database of a pool, and lists the rows that violate them.
func Violations(ctx context.Context, pool *pgxpool.Pool, clock func() time.Time) (string, error) {
	var found []string
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// The first statement takes the snapshot. The time is read after it, so that no time in the
		// snapshot is later.
		if _, err := tx.Exec(ctx, `SELECT 1`); err != nil {
			return err
		}
		now := clock()
		for rule, sql := range invariants {
			var args []any
			if strings.Contains(sql, "$1") {
				args = append(args, now)
			}
			rows, err := tx.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			violating, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if len(violating) > 0 {
				found = append(found, rule+": "+strings.Join(violating, ", "))
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

// RequireNoDeadlocks fails the test if PostgreSQL has counted a deadlock. The order of locks should
// exclude them. Tests would not notice one otherwise, since an aborted transaction is repeated.
func (s *Service) RequireNoDeadlocks(t *testing.T) {
	t.Helper()
	require.Zero(t, s.Count(t, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
}
