-- name: FindEvent :one
SELECT sqlc.embed(events), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM events
WHERE event_id = @event_id;

-- name: LockEvent :one
SELECT sqlc.embed(events), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM events
WHERE event_id = @event_id
FOR UPDATE;

-- name: ListEvents :many
SELECT sqlc.embed(events), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM events
WHERE sqlc.narg(before_start)::timestamptz IS NULL
   OR (starts_at, event_id) < (sqlc.narg(before_start)::timestamptz, @before_id::text)
ORDER BY starts_at DESC, event_id DESC
LIMIT @max::int;

-- name: Sections :many
SELECT event_id, section, price, fee, capacity, seat_rows, seats_per_row, first_idx
FROM sections
WHERE event_id = ANY (@event_ids::text[])
ORDER BY event_id, ordinal;

-- All seats that are not free, as arrays in one row, since there may be 50,000. The statement sees one
-- snapshot, so that the event's version belongs to these seats.
-- name: TakenSeats :one
SELECT e.version, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now, pg_current_snapshot()::text AS snapshot,
       pg_postmaster_start_time()::timestamptz AS server_started,
       coalesce(t.idx, '{}')::integer[] AS idx, coalesce(t.states, '{}')::bigint[] AS states
FROM events e
CROSS JOIN LATERAL (SELECT array_agg(s.idx) AS idx, array_agg(seat_state(s.status, s.held_until)) AS states
                    FROM seats s WHERE s.event_id = e.event_id AND s.status <> 'FREE') t
WHERE e.event_id = @event_id;

-- The changes that the snapshot "since" does not see, in order for each seat. The first SELECT has those
-- of transactions that began later, the second those of transactions that were running: one range from
-- the oldest running transaction on would return all changes again while that one runs. Changes that
-- are not visible to the current snapshot were restored from a backup of another server.
-- name: SeatChanges :many
SELECT e.version, e.state, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now, pg_current_snapshot()::text AS snapshot,
       pg_postmaster_start_time()::timestamptz AS server_started,
       (p.below <= pg_snapshot_xmin((@since::text)::pg_snapshot)
        AND pg_snapshot_xmax((@since::text)::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot()))::boolean AS complete,
       coalesce(c.idx, '{}')::integer[] AS idx, coalesce(c.states, '{}')::bigint[] AS states
FROM events e
JOIN seat_changes_pruned p ON p.only_row
LEFT JOIN LATERAL (
    SELECT n.id, n.idx, n.states
    FROM seat_changes n
    WHERE n.event_id = e.event_id AND n.xid >= pg_snapshot_xmax((@since::text)::pg_snapshot)
      AND n.xid < pg_snapshot_xmax(pg_current_snapshot()) AND pg_visible_in_snapshot(n.xid, pg_current_snapshot())
    UNION ALL
    SELECT r.id, r.idx, r.states
    FROM seat_changes r
    WHERE r.event_id = e.event_id AND r.xid = ANY (ARRAY(SELECT pg_snapshot_xip((@since::text)::pg_snapshot)))
      AND pg_visible_in_snapshot(r.xid, pg_current_snapshot())) c ON true
WHERE e.event_id = @event_id
ORDER BY c.id;

-- Every transaction below the bound had ended when the bound was read.
-- name: MoveSeatChangesBound :exec
UPDATE seat_changes_pruned
SET below = next, next = pg_snapshot_xmin(pg_current_snapshot()), read_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE only_row AND read_at <= coalesce(sqlc.narg('now')::timestamptz, now()) - interval '30 seconds';

-- Deletes up to @max changes below the bound, so that no statement runs for long.
-- name: PruneSeatChanges :execrows
DELETE FROM seat_changes
WHERE ctid = ANY (ARRAY(SELECT ctid FROM seat_changes WHERE xid < (SELECT below FROM seat_changes_pruned WHERE only_row) LIMIT @max::int));

-- Deletes up to @max changes that were restored from a backup of another server, whose transactions had
-- higher ids.
-- name: DropRestoredSeatChanges :execrows
DELETE FROM seat_changes
WHERE ctid = ANY (ARRAY(SELECT ctid FROM seat_changes WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) LIMIT @max::int));

-- House seats, and those given back, count as sold: they do not come back soon, as those of holds may.
-- name: CountTaken :many
SELECT split_part(seat_id, '-', 1)::text AS section, count(*) AS taken, count(*) FILTER (WHERE status NOT IN ('HELD', 'DELAYED')) AS sold
FROM seats
WHERE event_id = @event_id
  AND NOT (status = 'FREE' OR (status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now())))
GROUP BY 1;

-- For general admission; of seated sections held seats are left out. Expired holds count as free, although the counter still includes them. The order
-- makes PostgreSQL use the index of due holds, also while it knows nothing of the table: the one by user
-- has all reservations of the event.
-- name: TakenAdmissions :many
SELECT s.section,
       (s.sold + s.house + s.returns + s.held - coalesce((
           SELECT sum(d.quantity)
           FROM (SELECT r.quantity
                 FROM reservations r
                 WHERE r.event_id = s.event_id AND r.section = s.section AND r.section <> ''
                   AND r.status IN ('HELD', 'PAYING') AND r.expires_at <= coalesce(sqlc.narg('now')::timestamptz, now())
                 ORDER BY r.expires_at OFFSET 0) d), 0))::bigint AS taken,
       (s.sold + s.house + s.returns)::bigint AS sold
FROM sections s
WHERE s.event_id = @event_id;

-- By the counters of the event's sections: looking for an unsold seat would read a hall that is nearly
-- sold out. It is a scalar subquery, since PostgreSQL may answer EXISTS by a hash of all sections.
-- name: SaleStandings :many
SELECT e.event_id, e.state, e.presale_opens_at, e.sales_open_at, e.sales_close_at, t.now,
       CASE WHEN e.state <> 'OPEN' OR t.now < coalesce(e.presale_opens_at, e.sales_open_at) OR t.now >= e.sales_close_at THEN false
            ELSE (SELECT 1 FROM sections s WHERE s.event_id = e.event_id AND s.sold + s.house + s.returns < s.capacity LIMIT 1) IS NULL
       END::boolean AS sold_out,
       coalesce((SELECT (extract(epoch FROM l.updated_at) * 1000000)::bigint FROM line_settings l WHERE l.event_id = e.event_id),
                0)::bigint AS settings_version
FROM events e, (SELECT coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now) t
WHERE e.event_id = ANY (@event_ids::text[]);

-- name: CountFree :one
SELECT count(*)
FROM seats
WHERE seats.event_id = @event_id
  AND idx BETWEEN (SELECT first_idx FROM sections s WHERE s.event_id = @event_id AND s.section = @section)
              AND (SELECT first_idx + capacity - 1 FROM sections s WHERE s.event_id = @event_id AND s.section = @section)
  AND (status = 'FREE' OR (status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now())));

-- name: InsertEvent :execrows
INSERT INTO events (event_id, title, artist, venue, starts_at, sales_open_at, sales_close_at, seating, currency, max_per_user,
                    hold_seconds, time_zone, doors_at, closes_at, refund_until, user_refunds, return_within, series_id,
                    max_per_user_in_series, cancellation_until, cancellation_percents, transferable, presale_opens_at,
                    presale_max_per_user, presale_ways, codes_from, expected_visitors, expected_within, returns_to,
                    max_returns_per_user, statement_suffix)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31)
ON CONFLICT DO NOTHING;

-- What opens after @since and until @until, sales and presales, of sales for which operators expect a crowd.
-- name: ExpectedOpenings :many
SELECT e.event_id, o.opens_at::timestamptz AS opens_at, e.expected_visitors, e.expected_within
FROM events e, LATERAL (VALUES (e.presale_opens_at), (e.sales_open_at)) o (opens_at)
WHERE e.expected_visitors > 0 AND e.state = 'OPEN' AND e.sales_open_at > @since::timestamptz
  AND o.opens_at > @since::timestamptz AND o.opens_at <= @until::timestamptz
ORDER BY o.opens_at DESC
LIMIT 1000;

-- name: UpdateEvent :exec
UPDATE events
SET title = $2, artist = $3, venue = $4, starts_at = $5, sales_open_at = $6, sales_close_at = $7, seating = $8, currency = $9,
    max_per_user = $10, hold_seconds = $11, time_zone = $12, doors_at = $13, closes_at = $14, refund_until = $15, user_refunds = $16,
    return_within = $17, series_id = $18, max_per_user_in_series = $19,
    cancellation_until = $20, cancellation_percents = $21, transferable = $22, presale_opens_at = $23,
    presale_max_per_user = $24, presale_ways = $25, codes_from = $26, expected_visitors = $27, expected_within = $28,
    returns_to = $29, max_returns_per_user = $30, statement_suffix = $31, version = version + 1, updated_at = now()
WHERE event_id = $1;

-- Keeps an event's terms of refunds by users before they change.
-- name: KeepFormerTerms :exec
INSERT INTO former_terms (event_id, until, refund_until, user_refunds, fees_until, postponed_at, cancellation_until, cancellation_percents)
SELECT e.event_id, @now::timestamptz, least(e.refund_until, coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour')), e.user_refunds,
       least(coalesce(e.fees_until, 'epoch'), coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour')), e.postponed_at,
       e.cancellation_until, e.cancellation_percents
FROM events e
WHERE e.event_id = @event_id;

-- Deletes terms from before all requests that may still be decided on.
-- name: PruneFormerTerms :exec
DELETE FROM former_terms WHERE event_id = @event_id AND until < @before;

-- name: FormerTerms :many
SELECT refund_until, user_refunds, fees_until, postponed_at, cancellation_until, cancellation_percents
FROM former_terms
WHERE event_id = @event_id AND until > @at
ORDER BY until;

-- name: HasLiveReservations :one
SELECT EXISTS (SELECT 1 FROM reservations WHERE event_id = $1 AND status IN ('HELD', 'PAYING', 'CONFIRMED'));

-- Of a sale that has sold, also if everything was given back.
-- name: InsertSections :exec
INSERT INTO sections (event_id, section, ordinal, price, fee, capacity, seat_rows, seats_per_row, first_idx)
SELECT @event_id::text, n.section, n.ordinal, n.price, n.fee, n.capacity, nullif(n.seat_rows, 0), nullif(n.seats_per_row, 0), n.first_idx
FROM (SELECT unnest(@sections::text[]) AS section, unnest(@ordinals::int[]) AS ordinal, unnest(@prices::bigint[]) AS price,
             unnest(@fees::bigint[]) AS fee, unnest(@capacities::bigint[]) AS capacity, unnest(@seat_rows::int[]) AS seat_rows,
             unnest(@seats_per_row::int[]) AS seats_per_row, unnest(@first_idx::int[]) AS first_idx) n;

-- name: InsertSeats :execrows
INSERT INTO seats (event_id, seat_id, idx)
SELECT s.event_id, s.section || '-' || r || '-' || n, s.first_idx + (r - 1) * s.seats_per_row + n - 1
FROM sections s, generate_series(1, s.seat_rows) r, generate_series(1, s.seats_per_row) n
WHERE s.event_id = $1
ORDER BY 3;

-- name: DeleteFreeSeats :execrows
DELETE FROM seats WHERE event_id = $1 AND status = 'FREE';

-- name: DeleteUnusedSections :execrows
DELETE FROM sections WHERE event_id = $1 AND held = 0 AND sold = 0 AND house = 0 AND returns = 0;

-- Those of general admission come first, as in all transactions; free is theirs.
-- name: LockSections :many
SELECT section, seated, price, fee, (capacity - held - sold - house - returns)::bigint AS free
FROM sections
WHERE event_id = @event_id AND section = ANY (@sections::text[])
ORDER BY seated, section
FOR UPDATE;

-- Prices and fees of holds to come, and capacities down to what is not free.
-- name: UpdateSections :execrows
UPDATE sections s
SET price = n.price, fee = n.fee, capacity = n.capacity
FROM (SELECT unnest(@sections::text[]) AS section, unnest(@prices::bigint[]) AS price, unnest(@fees::bigint[]) AS fee,
             unnest(@capacities::bigint[]) AS capacity) n
WHERE s.event_id = @event_id AND s.section = n.section AND s.held + s.sold + s.house + s.returns <= n.capacity;

-- What decides whether payments of the events are honoured and tickets given back, and the time after
-- the locks; one row without an event if there is none.
-- name: Closings :many
SELECT t.now, coalesce(e.event_id, '')::text AS event_id, coalesce(e.state, '')::text AS state,
       coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour', t.now)::timestamptz AS closes_at,
       least(e.refund_until, coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour', t.now))::timestamptz AS refund_until,
       coalesce(e.user_refunds, false)::boolean AS user_refunds,
       least(coalesce(e.fees_until, 'epoch'), coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour', t.now))::timestamptz AS fees_until,
       e.postponed_at, coalesce(e.sales_close_at, t.now)::timestamptz AS sales_close_at, coalesce(e.returns_to, 'SALE')::text AS returns_to,
       coalesce(e.return_within, 0)::integer AS return_within, coalesce(e.transferable, 'NONE')::text AS transferable,
       coalesce(e.cancellation_until, '{}')::timestamptz[] AS cancellation_until,
       coalesce(e.cancellation_percents, '{}')::integer[] AS cancellation_percents
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now) t
LEFT JOIN events e ON e.event_id = ANY (@event_ids::text[]);
