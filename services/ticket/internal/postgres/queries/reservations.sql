-- name: FindReservation :one
SELECT sqlc.embed(reservations), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM reservations
WHERE reservation_id = @reservation_id;

-- name: ListReservations :many
SELECT sqlc.embed(reservations), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM reservations
WHERE user_id = @user_id AND reservation_id < @before::uuid
ORDER BY reservation_id DESC
LIMIT @max::int;

-- name: SeatsOf :many
SELECT reservation_id, seat_id::text AS seat_id, price, fee
FROM places
WHERE reservation_id = ANY (@reservation_ids::uuid[]) AND seat_id IS NOT NULL
ORDER BY reservation_id, n;

-- name: UsersOf :many
SELECT DISTINCT r.event_id, coalesce((SELECT e.series_id FROM events e WHERE e.event_id = r.event_id), '')::text AS series_id, r.user_id
FROM reservations r
WHERE reservation_id = ANY (@reservation_ids::uuid[]);

-- After the users a transaction locks the seats, in the order of their indexes.
-- name: LockSeatsOf :many
SELECT rs.reservation_id
FROM seats s JOIN places rs ON rs.event_id = s.event_id AND rs.seat_id = s.seat_id
WHERE rs.reservation_id = ANY (@reservation_ids::uuid[]) AND rs.live
ORDER BY s.event_id, s.idx
FOR UPDATE OF s;

-- name: LockFreeSeatsOf :many
SELECT rs.reservation_id
FROM seats s JOIN places rs ON rs.event_id = s.event_id AND rs.seat_id = s.seat_id
WHERE rs.reservation_id = ANY (@reservation_ids::uuid[]) AND rs.live
ORDER BY s.event_id, s.idx
FOR UPDATE OF s SKIP LOCKED;

-- With general admission a transaction locks the counters instead of seats.
-- name: LockSectionsOf :exec
SELECT 1
FROM (SELECT DISTINCT event_id, section FROM reservations
      WHERE reservation_id = ANY (@reservation_ids::uuid[]) AND section <> '') r
JOIN sections s ON s.event_id = r.event_id AND s.section = r.section
ORDER BY s.event_id, s.section
FOR UPDATE OF s;

-- A transaction locks reservations after their places. The time is that at which it has all locks, not that of its
-- begin: while it waited, other transactions may have seen these reservations as expired.
-- name: LockReservations :many
SELECT sqlc.embed(reservations), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM reservations
WHERE reservation_id = ANY (@reservation_ids::uuid[])
ORDER BY reservation_id
FOR UPDATE;

-- name: UpdateReservations :execrows
UPDATE reservations r
SET status = c.status, reason = c.reason, expires_at = c.expires_at, released = c.released, version = c.version,
    payment_id = nullif(c.payment_id, '00000000-0000-0000-0000-000000000000'), begun = c.begun::uuid[], opens = c.opens, declines = c.declines, charging = c.charging, updated_at = now()
FROM (SELECT unnest(@reservation_ids::uuid[]) AS id, unnest(@was::text[]) AS was, unnest(@was_versions::bigint[]) AS was_version,
             unnest(@statuses::text[]) AS status, unnest(@reasons::text[]) AS reason, unnest(@expires_at::timestamptz[]) AS expires_at,
             unnest(@released::int[]) AS released, unnest(@payment_ids::uuid[]) AS payment_id, unnest(@begun::text[]) AS begun, unnest(@opens::int[]) AS opens, unnest(@declines::int[]) AS declines,
             unnest(@charging::boolean[]) AS charging,
             unnest(@versions::bigint[]) AS version) c
WHERE r.reservation_id = c.id AND r.status = c.was AND r.version = c.was_version;

-- name: UpdateSeats :execrows
UPDATE seats s
SET status = c.status,
    reservation_id = CASE WHEN c.status IN ('HELD', 'SOLD') THEN c.id END,
    held_until = CASE WHEN c.status = 'HELD' THEN c.held_until END
FROM (SELECT unnest(@reservation_ids::uuid[]) AS id, unnest(@was::text[]) AS was, unnest(@statuses::text[]) AS status,
             unnest(@held_until::timestamptz[]) AS held_until) c
JOIN places rs ON rs.reservation_id = c.id AND rs.live
WHERE s.event_id = rs.event_id AND s.seat_id = rs.seat_id AND s.reservation_id = c.id AND s.status = c.was;

-- name: EndSeats :execrows
UPDATE places SET live = false WHERE reservation_id = ANY (@reservation_ids::uuid[]) AND live;

-- name: EndPlaces :execrows
UPDATE places p SET live = false
FROM (SELECT unnest(@reservation_ids::uuid[]) AS id, unnest(@ns::int[]) AS n) c
WHERE p.reservation_id = c.id AND p.n = c.n AND p.live;

-- The seats among places that were paid and are given back.
-- name: GiveSeatsBack :execrows
UPDATE seats s
SET status = c.status, reservation_id = NULL
FROM (SELECT unnest(@reservation_ids::uuid[]) AS id, unnest(@ns::int[]) AS n, unnest(@statuses::text[]) AS status) c
JOIN places p ON p.reservation_id = c.id AND p.n = c.n
WHERE s.event_id = p.event_id AND s.seat_id = p.seat_id AND s.reservation_id = c.id AND s.status = 'SOLD';

-- name: MoveCounters :execrows
UPDATE sections s
SET held = s.held + d.held, sold = s.sold + d.sold
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@sections::text[]) AS section, unnest(@held::bigint[]) AS held,
             unnest(@sold::bigint[]) AS sold) d
WHERE s.event_id = d.event_id AND s.section = d.section;

-- Moves the counters of seats that are sold, and of all places that are given back, or kept by the
-- organiser, or free some time after their holds. Those of seats are the last locks of a transaction, and taken in order; those of general
-- admission are locked already.
-- name: MoveSold :execrows
UPDATE sections s
SET held = s.held + d.held, sold = s.sold + d.sold, house = s.house + d.house, returns = s.returns + d.returns
FROM (SELECT l.event_id, l.section, n.held, n.sold, n.house, n.returns
      FROM sections l
      JOIN (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@sections::text[]) AS section, unnest(@held::bigint[]) AS held,
                   unnest(@sold::bigint[]) AS sold, unnest(@house::bigint[]) AS house, unnest(@returns::bigint[]) AS returns) n
        ON n.event_id = l.event_id AND n.section = l.section
      ORDER BY l.event_id, l.section
      FOR UPDATE OF l) d
WHERE s.event_id = d.event_id AND s.section = d.section;

-- Payments that are under way for reservations, and whether their time to pay is short.
-- name: PayingReservations :many
SELECT r.reservation_id AS reference_id, p.payment_id::uuid AS payment_id,
       (r.expires_at < coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @short_seconds::int))::boolean AS short
FROM (SELECT unnest(@reference_ids::uuid[]) AS reservation_id, unnest(@payment_ids::uuid[]) AS payment_id) p
CROSS JOIN LATERAL (SELECT * FROM reservations WHERE reservations.reservation_id = p.reservation_id OFFSET 0) r
WHERE r.status = 'PAYING' AND r.payment_id = p.payment_id;

-- Whether a user is blocked at the event of a reservation, and how many payment pages the user has opened lately for the event's other
-- unpaid reservations, and how many of their payments were declined. UNION makes both parts use their index.
-- name: PayTerms :one
SELECT coalesce((SELECT r.user_id = ANY (l.blocked_users) FROM line_settings l WHERE l.event_id = r.event_id), false)::boolean AS blocked,
       o.pages::bigint AS pages, o.declines::bigint AS declines
FROM reservations r
CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.opens), 0) AS pages, coalesce(sum(x.declines), 0) AS declines
    FROM (SELECT e.opens, e.declines
          FROM reservations e
          WHERE e.event_id = r.event_id AND e.user_id = r.user_id AND e.status IN ('CANCELLED', 'EXPIRED')
            AND e.expires_at > coalesce(sqlc.narg('now')::timestamptz, now()) - make_interval(secs => @forgotten_after)
          UNION ALL
          SELECT h.opens, h.declines
          FROM reservations h
          WHERE h.event_id = r.event_id AND h.user_id = r.user_id AND h.status IN ('HELD', 'PAYING') AND h.reservation_id <> r.reservation_id) x) o
WHERE r.reservation_id = @reservation_id;

-- name: UnpaidOf :many
SELECT reservation_id FROM reservations
WHERE event_id = @event_id AND user_id = @user_id AND status IN ('HELD', 'PAYING');

-- name: DueReservations :many
SELECT reservation_id
FROM reservations
WHERE status IN ('HELD', 'PAYING') AND expires_at <= coalesce(sqlc.narg('now')::timestamptz, now())
  AND reservation_id <> ALL (@skipped::uuid[])
ORDER BY expires_at
LIMIT @max::int;

-- name: PlacesByEvent :many
SELECT e.event_id, r.sold::bigint AS sold, r.house::bigint AS house, r.returns::bigint AS returns,
       (e.state IN ('OPEN', 'PAUSED') AND e.sales_close_at > coalesce(sqlc.narg('now')::timestamptz, now()))::boolean AS selling
FROM (SELECT event_id, state, sales_close_at FROM events
      WHERE coalesce(presale_opens_at, sales_open_at) <= coalesce(sqlc.narg('now')::timestamptz, now()) + interval '15 minutes'
        AND sales_close_at > coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 day'
      ORDER BY sales_open_at DESC LIMIT @max::int) e
CROSS JOIN LATERAL (SELECT coalesce(sum(s.sold), 0) AS sold, coalesce(sum(s.house), 0) AS house, coalesce(sum(s.returns), 0) AS returns
                    FROM sections s WHERE s.event_id = e.event_id) r;
