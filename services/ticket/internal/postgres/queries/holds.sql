-- Waits for the users' concurrent holds of this event, in the order of the keys. It is a separate
-- statement, so that the next ones see what those holds have committed.
-- name: LockUsers :exec
SELECT pg_advisory_xact_lock(k) FROM unnest(@keys::bigint[]) AS k;

-- LockUsers without waiting.
-- name: TryLockUsers :many
SELECT k::bigint AS key, pg_try_advisory_xact_lock(k) AS locked FROM unnest(@keys::bigint[]) AS k;

-- name: SaleOf :one
SELECT seating, state, returns_to, presale_opens_at, sales_open_at, sales_close_at, max_per_user, currency, hold_seconds,
       coalesce(series_id, '')::text AS series_id, coalesce(max_per_user_in_series, 0)::integer AS max_per_user_in_series,
       coalesce(presale_max_per_user, 0)::integer AS presale_max_per_user,
       coalesce(max_returns_per_user, 0)::integer AS max_returns_per_user, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM events
WHERE event_id = @event_id;

-- What limits what users may buy. used: the places that they have bought, hold, had from others, or are about to get from them; one that
-- is given back until it is for sale again (pending). A place counts once, whoever has it now: each counts for everybody through whose
-- hands it went. returned: the other places that they gave back. unpaid: their holds of late that ended without a payment, also those that
-- are not marked as ended yet, and when the last one did; some whose payments failed are forgiven. pages: the payment pages opened for all
-- of these, without some whose payments were declined, and until when they count. LATERAL makes each lookup use the index, even with a plan
-- that was cached while the table was empty; that plan would read all reservations.
-- name: RecordsOf :many
SELECT u.user_id::text AS user_id, (r.used + p.used + b.pending)::bigint AS used, b.pending::bigint AS pending,
       greatest(g.given - b.pending, 0)::bigint AS returned, (h.plain + greatest(h.failed - @forgiven::integer, 0))::bigint AS unpaid,
       greatest(h.last_plain, CASE WHEN h.failed > @forgiven::integer THEN h.last_failed END, 'epoch')::timestamptz AS last_unpaid,
       greatest(h.opens - least(h.declines, @forgiven::integer), 0)::bigint AS pages, coalesce(h.first_page, 'epoch')::timestamptz AS first_page
FROM unnest(@user_ids::text[]) AS u (user_id)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(quantity - released), 0) AS used
    FROM reservations
    WHERE reservations.event_id = @event_id AND reservations.user_id = u.user_id AND status IN ('HELD', 'PAYING', 'CONFIRMED')
      AND origin = 'SALE' AND (status = 'CONFIRMED' OR expires_at > coalesce(sqlc.narg('now')::timestamptz, now()))) r
CROSS JOIN LATERAL (
    SELECT count(*) AS used
    FROM (SELECT k.reservation_id, k.n FROM tickets k WHERE k.event_id = @event_id AND k.user_id = u.user_id AND k.prev IS NOT NULL
          UNION
          SELECT k.reservation_id, k.n FROM transfers t JOIN tickets k ON k.ticket_id = t.ticket_id
          WHERE t.event_id = @event_id AND t.buyer = u.user_id AND t.status = 'AWAITING_PAYMENT') k
    JOIN places l ON l.reservation_id = k.reservation_id AND l.n = k.n AND l.live
    JOIN reservations o ON o.reservation_id = k.reservation_id AND o.origin = 'SALE' AND o.user_id <> u.user_id) p
CROSS JOIN LATERAL (SELECT count(*) AS pending FROM returns WHERE returns.event_id = @event_id AND returns.giver = u.user_id) b
CROSS JOIN LATERAL (
    SELECT count(*) AS given
    FROM tickets k
    WHERE k.event_id = @event_id AND k.user_id = u.user_id AND k.status = 'REFUNDED'
      AND (SELECT c.cause FROM refund_claims c WHERE c.refund_id = k.refund_id) = 'USER') g
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE declines = 0) AS plain, max(expires_at) FILTER (WHERE declines = 0) AS last_plain,
           count(*) FILTER (WHERE declines > 0) AS failed, max(expires_at) FILTER (WHERE declines > 0) AS last_failed,
           coalesce(sum(opens), 0) AS opens, coalesce(sum(declines), 0) AS declines, min(expires_at) FILTER (WHERE opens > 0) AS first_page
    FROM (SELECT e.declines, e.opens, e.expires_at
          FROM reservations e
          WHERE e.event_id = @event_id AND e.user_id = u.user_id AND e.status IN ('CANCELLED', 'EXPIRED')
            AND e.reason IN ('USER', 'HOLD_EXPIRED')
            AND e.expires_at > coalesce(sqlc.narg('now')::timestamptz, now()) - make_interval(secs => @forgotten_after)
          UNION ALL
          SELECT d.declines, d.opens, d.expires_at
          FROM reservations d
          WHERE d.event_id = @event_id AND d.user_id = u.user_id AND d.status IN ('HELD', 'PAYING')
            AND d.expires_at <= coalesce(sqlc.narg('now')::timestamptz, now())) x) h;

-- RecordsOf's used places, of all events of a series.
-- name: UsedInSeries :many
SELECT u.user_id::text AS user_id, (r.used + p.used + b.pending)::bigint AS used
FROM unnest(@user_ids::text[]) AS u (user_id)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(quantity - released), 0) AS used
    FROM reservations
    WHERE reservations.event_id = ANY (ARRAY(SELECT e.event_id FROM events e WHERE e.series_id = @series_id::text)) AND reservations.user_id = u.user_id
      AND status IN ('HELD', 'PAYING', 'CONFIRMED')
      AND origin = 'SALE' AND (status = 'CONFIRMED' OR expires_at > coalesce(sqlc.narg('now')::timestamptz, now()))) r
CROSS JOIN LATERAL (
    SELECT count(*) AS used
    FROM (SELECT k.reservation_id, k.n FROM tickets k
          WHERE k.event_id = ANY (ARRAY(SELECT e.event_id FROM events e WHERE e.series_id = @series_id::text)) AND k.user_id = u.user_id
            AND k.prev IS NOT NULL
          UNION
          SELECT k.reservation_id, k.n FROM transfers t JOIN tickets k ON k.ticket_id = t.ticket_id
          WHERE t.event_id = ANY (ARRAY(SELECT e.event_id FROM events e WHERE e.series_id = @series_id::text)) AND t.buyer = u.user_id
            AND t.status = 'AWAITING_PAYMENT') k
    JOIN places l ON l.reservation_id = k.reservation_id AND l.n = k.n AND l.live
    JOIN reservations o ON o.reservation_id = k.reservation_id AND o.origin = 'SALE' AND o.user_id <> u.user_id) p
CROSS JOIN LATERAL (
    SELECT count(*) AS pending FROM returns
    WHERE returns.event_id = ANY (ARRAY(SELECT e.event_id FROM events e WHERE e.series_id = @series_id::text)) AND returns.giver = u.user_id) b;

-- Seats before they are locked. held_by is the expired hold that may be taken over.
-- name: SeenSeats :many
SELECT s.seat_id, c.price, c.fee,
       (status = 'FREE' OR (status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now())))::boolean AS takeable,
       coalesce(CASE WHEN status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now()) THEN reservation_id END,
                '00000000-0000-0000-0000-000000000000')::uuid AS held_by
FROM seats s
JOIN sections c ON c.event_id = s.event_id AND c.section = split_part(s.seat_id, '-', 1)
WHERE s.event_id = @event_id AND s.seat_id = ANY (@seat_ids::text[]);

-- Seats are locked in the order of their indexes by all transactions.
-- name: LockSeats :many
SELECT seat_id, (status = 'FREE')::boolean AS free,
       coalesce(CASE WHEN status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now()) THEN reservation_id END,
                '00000000-0000-0000-0000-000000000000')::uuid AS held_by
FROM seats
WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[])
ORDER BY idx
FOR UPDATE;

-- LockSeats without the seats that another transaction has locked.
-- name: LockFreeSeats :many
SELECT seat_id, (status = 'FREE')::boolean AS free,
       coalesce(CASE WHEN status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now()) THEN reservation_id END,
                '00000000-0000-0000-0000-000000000000')::uuid AS held_by
FROM seats
WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[])
ORDER BY idx
FOR UPDATE SKIP LOCKED;

-- Changes the owners of locked seats; a seat whose owner is null becomes free. The owners are JSON, since
-- a join with a list of seats would read all seats of the event.
-- name: MoveSeats :execrows
UPDATE seats
SET status = CASE WHEN @owners::jsonb ->> seat_id IS NULL THEN 'FREE' ELSE 'HELD' END,
    reservation_id = (@owners::jsonb ->> seat_id)::uuid,
    held_until = CASE WHEN @owners::jsonb ->> seat_id IS NOT NULL THEN @held_until::timestamptz END
WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[]);

-- The places of the reservations are in separate arrays: owners, ns, seat_ids, prices and place_fees.
-- name: InsertHolds :exec
WITH r AS (
    INSERT INTO reservations (reservation_id, event_id, user_id, email, language, slot_id, section, quantity, amount, fee, currency, status,
                              expires_at, hold_ends_at, version, created_at)
    SELECT unnest(@reservation_ids::uuid[]), @event_id::text, unnest(@user_ids::text[]), unnest(@emails::text[]), unnest(@languages::text[]),
           unnest(@slot_ids::text[]), '',
           unnest(@quantities::int[]), unnest(@amounts::bigint[]), unnest(@fees::bigint[]), @currency::text, 'HELD',
           @expires_at::timestamptz, @expires_at::timestamptz, 1, @created_at::timestamptz
)
INSERT INTO places (reservation_id, n, event_id, section, seat_id, price, fee)
SELECT p.owner, p.n, @event_id::text, split_part(p.seat_id, '-', 1), p.seat_id, p.price, p.fee
FROM (SELECT unnest(@owners::uuid[]) AS owner, unnest(@ns::int[]) AS n, unnest(@seat_ids::text[]) AS seat_id,
             unnest(@prices::bigint[]) AS price, unnest(@place_fees::bigint[]) AS fee) p;

-- name: InsertGeneralHolds :exec
INSERT INTO reservations (reservation_id, event_id, user_id, email, language, slot_id, section, quantity, amount, fee, currency, status,
                          expires_at, hold_ends_at, version, created_at)
SELECT unnest(@reservation_ids::uuid[]), @event_id::text, unnest(@user_ids::text[]), unnest(@emails::text[]), unnest(@languages::text[]),
       unnest(@slot_ids::text[]), unnest(@sections::text[]), unnest(@quantities::int[]), unnest(@amounts::bigint[]), unnest(@fees::bigint[]), @currency::text, 'HELD', @expires_at::timestamptz,
       @expires_at::timestamptz, 1, @created_at::timestamptz;

-- LATERAL makes each section read no more than the first due holds of its own.
-- name: DueInSections :many
SELECT d.reservation_id
FROM unnest(@sections::text[]) AS s (section)
CROSS JOIN LATERAL (
    SELECT r.reservation_id, r.expires_at
    FROM reservations r
    WHERE r.event_id = @event_id AND r.section = s.section AND r.section <> '' AND r.status IN ('HELD', 'PAYING')
      AND r.expires_at <= coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY r.expires_at
    LIMIT @max::int) d
ORDER BY d.expires_at
LIMIT @max::int;
