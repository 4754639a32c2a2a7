-- Waits for the user's other holds of this event. A statement of its own, so that the next statements
-- see what those have committed.
-- name: LockUser :exec
SELECT pg_advisory_xact_lock($1);

-- name: LockUsers :exec
SELECT pg_advisory_xact_lock(k) FROM unnest(@keys::bigint[]) AS k;

-- name: SaleOf :one
SELECT seating, state, sales_open_at, sales_close_at, max_per_user, currency, hold_seconds,
       coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM events
WHERE event_id = @event_id;

-- SaleOf, and what one user has bought or holds.
-- name: SaleFor :one
SELECT e.seating, e.state, e.sales_open_at, e.sales_close_at, e.max_per_user, e.currency, e.hold_seconds,
       coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now,
       (SELECT coalesce(sum(r.quantity), 0)
        FROM reservations r
        WHERE r.event_id = e.event_id AND r.user_id = @user_id AND r.status IN ('HELD', 'PAYING', 'CONFIRMED')
          AND (r.status = 'CONFIRMED' OR r.expires_at > coalesce(sqlc.narg('now')::timestamptz, now())))::bigint AS used
FROM events e
WHERE e.event_id = @event_id;

-- What users have bought or hold.
-- name: UsedBy :many
SELECT user_id, sum(quantity)::bigint AS used
FROM reservations
WHERE event_id = @event_id AND user_id = ANY (@user_ids::text[])
  AND status IN ('HELD', 'PAYING', 'CONFIRMED')
  AND (status = 'CONFIRMED' OR expires_at > coalesce(sqlc.narg('now')::timestamptz, now()))
GROUP BY user_id;

-- Gives all the wanted seats to the reservation, or none. Seats of expired holds may be taken over:
-- all seats of such a hold are locked together with the wanted ones, in the order of their indexes,
-- and its other seats become free. A seat that is known to be taken is not waited for.
-- name: ClaimSeats :many
WITH seen AS (
    SELECT seat_id, reservation_id,
           (status = 'FREE' OR (status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now())))::boolean AS takeable,
           (status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now()))::boolean AS due
    FROM seats
    WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[])
), targets AS (
    SELECT seat_id FROM seen
    UNION
    SELECT rs.seat_id FROM reservation_seats rs JOIN seen ON rs.reservation_id = seen.reservation_id WHERE seen.due
), locked AS (
    SELECT s.seat_id, s.reservation_id, (s.status = 'FREE')::boolean AS free,
           (s.status = 'HELD' AND s.held_until <= coalesce(sqlc.narg('now')::timestamptz, now())
            AND s.reservation_id IN (SELECT reservation_id FROM seen))::boolean AS due
    FROM seats s JOIN targets t ON t.seat_id = s.seat_id
    WHERE s.event_id = @event_id AND (SELECT bool_and(takeable) FROM seen)
    ORDER BY s.idx
    FOR UPDATE OF s
), verdict AS (
    SELECT (SELECT count(*) FROM locked) = (SELECT count(*) FROM targets)
       AND (SELECT count(*) FROM seen) = cardinality(@seat_ids::text[])
       AND NOT EXISTS (SELECT 1 FROM locked l WHERE l.seat_id = ANY (@seat_ids::text[]) AND NOT l.free AND NOT l.due) AS yes
), claimed AS (
    UPDATE seats s
    SET status = CASE WHEN w.wanted THEN 'HELD' ELSE 'FREE' END,
        reservation_id = CASE WHEN w.wanted THEN @reservation_id::uuid END,
        held_until = CASE WHEN w.wanted THEN @held_until::timestamptz END
    FROM (SELECT seat_id, free, due, seat_id = ANY (@seat_ids::text[]) AS wanted FROM locked) w
    WHERE s.event_id = @event_id AND s.seat_id = w.seat_id AND (w.due OR (w.free AND w.wanted)) AND (SELECT yes FROM verdict)
    RETURNING s.seat_id
)
SELECT seen.seat_id, (claimed.seat_id IS NOT NULL)::boolean AS claimed,
       (SELECT sec.price FROM sections sec
        WHERE sec.event_id = @event_id AND sec.section = split_part(seen.seat_id, '-', 1))::bigint AS price,
       (NOT seen.takeable
        OR ((SELECT bool_and(takeable) FROM seen) AND NOT coalesce(locked.free OR locked.due, false)))::boolean AS taken,
       coalesce(CASE WHEN locked.due THEN locked.reservation_id END, '00000000-0000-0000-0000-000000000000')::uuid AS previous
FROM seen
LEFT JOIN locked ON locked.seat_id = seen.seat_id
LEFT JOIN claimed ON claimed.seat_id = seen.seat_id;

-- ClaimSeats without waiting: a seat that another transaction has locked counts as taken.
-- name: ClaimFreeSeats :many
WITH seen AS (
    SELECT seat_id, reservation_id,
           (status = 'FREE' OR (status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now())))::boolean AS takeable,
           (status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now()))::boolean AS due
    FROM seats
    WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[])
), targets AS (
    SELECT seat_id FROM seen
    UNION
    SELECT rs.seat_id FROM reservation_seats rs JOIN seen ON rs.reservation_id = seen.reservation_id WHERE seen.due
), locked AS (
    SELECT s.seat_id, s.reservation_id, (s.status = 'FREE')::boolean AS free,
           (s.status = 'HELD' AND s.held_until <= coalesce(sqlc.narg('now')::timestamptz, now())
            AND s.reservation_id IN (SELECT reservation_id FROM seen))::boolean AS due
    FROM seats s JOIN targets t ON t.seat_id = s.seat_id
    WHERE s.event_id = @event_id AND (SELECT bool_and(takeable) FROM seen)
    ORDER BY s.idx
    FOR UPDATE OF s SKIP LOCKED
), verdict AS (
    SELECT (SELECT count(*) FROM locked) = (SELECT count(*) FROM targets)
       AND (SELECT count(*) FROM seen) = cardinality(@seat_ids::text[])
       AND NOT EXISTS (SELECT 1 FROM locked l WHERE l.seat_id = ANY (@seat_ids::text[]) AND NOT l.free AND NOT l.due) AS yes
), claimed AS (
    UPDATE seats s
    SET status = CASE WHEN w.wanted THEN 'HELD' ELSE 'FREE' END,
        reservation_id = CASE WHEN w.wanted THEN @reservation_id::uuid END,
        held_until = CASE WHEN w.wanted THEN @held_until::timestamptz END
    FROM (SELECT seat_id, free, due, seat_id = ANY (@seat_ids::text[]) AS wanted FROM locked) w
    WHERE s.event_id = @event_id AND s.seat_id = w.seat_id AND (w.due OR (w.free AND w.wanted)) AND (SELECT yes FROM verdict)
    RETURNING s.seat_id
)
SELECT seen.seat_id, (claimed.seat_id IS NOT NULL)::boolean AS claimed,
       (SELECT sec.price FROM sections sec
        WHERE sec.event_id = @event_id AND sec.section = split_part(seen.seat_id, '-', 1))::bigint AS price,
       (NOT seen.takeable
        OR ((SELECT bool_and(takeable) FROM seen) AND NOT coalesce(locked.free OR locked.due, false)))::boolean AS taken,
       coalesce(CASE WHEN locked.due THEN locked.reservation_id END, '00000000-0000-0000-0000-000000000000')::uuid AS previous
FROM seen
LEFT JOIN locked ON locked.seat_id = seen.seat_id
LEFT JOIN claimed ON claimed.seat_id = seen.seat_id;

-- name: InsertHold :exec
WITH r AS (
    INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at,
                              hold_ends_at, version, created_at)
    VALUES (@reservation_id, @event_id, @user_id, @slot_id, '', @quantity, @amount, @currency, 'HELD', @expires_at, @expires_at, 1,
            @created_at)
)
INSERT INTO reservation_seats (reservation_id, event_id, seat_id, price)
SELECT @reservation_id, @event_id, unnest(@seat_ids::text[]), unnest(@prices::bigint[]);

-- name: InsertGeneralHolds :exec
INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at,
                          hold_ends_at, version, created_at)
SELECT unnest(@reservation_ids::uuid[]), @event_id::text, unnest(@user_ids::text[]), unnest(@slot_ids::text[]), unnest(@sections::text[]),
       unnest(@quantities::int[]), unnest(@amounts::bigint[]), @currency::text, 'HELD', @expires_at::timestamptz,
       @expires_at::timestamptz, 1, @created_at::timestamptz;

-- name: DueInSections :many
SELECT reservation_id
FROM reservations
WHERE event_id = @event_id AND section = ANY (@sections::text[]) AND status IN ('HELD', 'PAYING')
  AND expires_at <= coalesce(sqlc.narg('now')::timestamptz, now())
ORDER BY expires_at
LIMIT @max::int;
