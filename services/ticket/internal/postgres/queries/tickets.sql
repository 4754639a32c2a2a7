-- The places of general admission are written with their first tickets; prev is the ticket that was passed on.
-- name: InsertTickets :exec
WITH t AS (
    SELECT unnest(@ticket_ids::uuid[]) AS ticket_id, unnest(@reservation_ids::uuid[]) AS reservation_id, unnest(@ns::int[]) AS n,
           unnest(@event_ids::text[]) AS event_id, unnest(@user_ids::text[]) AS user_id, unnest(@sections::text[]) AS section,
           nullif(unnest(@seat_ids::text[]), '') AS seat_id, unnest(@prices::bigint[]) AS price, unnest(@fees::bigint[]) AS fee,
           unnest(@paid::bigint[]) AS paid, unnest(@currencies::text[]) AS currency, nullif(unnest(@payment_ids::uuid[]), '00000000-0000-0000-0000-000000000000') AS payment_id,
           nullif(unnest(@prevs::uuid[]), '00000000-0000-0000-0000-000000000000') AS prev, unnest(@chosen_at::timestamptz[]) AS chosen_at,
           unnest(@only_whole::bigint[]) AS only_whole
), standing AS (
    INSERT INTO places (reservation_id, n, event_id, section, price, fee)
    SELECT reservation_id, n, event_id, section, price, fee FROM t WHERE seat_id IS NULL AND prev IS NULL
)
INSERT INTO tickets (ticket_id, prev, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, currency, payment_id, status,
                     issued_at, chosen_at, only_whole)
SELECT ticket_id, prev, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, currency, payment_id, 'VALID',
       coalesce(sqlc.narg('now')::timestamptz, now()), chosen_at, only_whole
FROM t;

-- name: TicketsOfPayment :many
SELECT ticket_id FROM tickets WHERE payment_id = @payment_id::uuid;

-- MarkDisputed marks the tickets of payments and those that were passed on as gifts for them, which are locked, or new.
-- name: MarkDisputed :exec
WITH RECURSIVE c AS (
    SELECT unnest(@payment_ids::uuid[]) AS payment_id, unnest(@disputed::boolean[]) AS disputed, unnest(@versions::bigint[]) AS version
), own AS (
    SELECT t.ticket_id, c.disputed, c.version FROM c JOIN tickets t ON t.payment_id = c.payment_id
    UNION ALL
    SELECT g.ticket_id, own.disputed, own.version FROM own JOIN tickets g ON g.prev = own.ticket_id WHERE g.payment_id IS NULL
)
UPDATE tickets t SET disputed = own.disputed, disputed_as_of = own.version, updated_at = now()
FROM own WHERE t.ticket_id = own.ticket_id AND t.disputed_as_of < own.version;

-- The tickets of payments, and those that were passed on as gifts for them.
-- name: TicketsOfPayments :many
WITH RECURSIVE own AS (
    SELECT t.ticket_id FROM tickets t WHERE t.payment_id = ANY (@payment_ids::uuid[])
    UNION ALL
    SELECT g.ticket_id FROM own JOIN tickets g ON g.prev = own.ticket_id WHERE g.payment_id IS NULL
)
SELECT ticket_id FROM own;

-- A ticket's reservation never changes.
-- name: ReservationsOf :many
SELECT DISTINCT reservation_id FROM tickets WHERE ticket_id = ANY (@ticket_ids::uuid[]);

-- Tickets are locked after reservations. Whatever leaves VALID does so under this lock. Only orders without a payment may have a name.
-- name: LockTickets :many
SELECT sqlc.embed(t), valid_now(t.status, t.used_epoch, (SELECT e.epoch FROM events e WHERE e.event_id = t.event_id))::boolean AS valid,
       coalesce(CASE WHEN t.payment_id IS NULL AND t.prev IS NULL THEN (SELECT c.name FROM comps c WHERE c.reservation_id = t.reservation_id) END, '')::text AS name
FROM tickets t
WHERE t.ticket_id = ANY (@ticket_ids::uuid[])
ORDER BY t.ticket_id
FOR UPDATE OF t;

-- Doors lock the event, so that the epoch is the one that they have read.
-- name: UpdateTickets :execrows
UPDATE tickets t
SET status = c.status, given = c.given, refund_id = nullif(c.refund_id, '00000000-0000-0000-0000-000000000000'),
    used_epoch = CASE WHEN c.status = 'USED' THEN (SELECT e.epoch FROM events e WHERE e.event_id = t.event_id) ELSE t.used_epoch END,
    updated_at = now()
FROM (SELECT unnest(@ticket_ids::uuid[]) AS id, unnest(@was::text[]) AS was, unnest(@was_given::bigint[]) AS was_given,
             unnest(@statuses::text[]) AS status, unnest(@given::bigint[]) AS given, unnest(@refund_ids::uuid[]) AS refund_id) c
WHERE t.ticket_id = c.id AND t.status = c.was AND t.given = c.was_given;

-- A ticket with what decides whether it can be given back, as Closings reads it. Of an empty table of events PostgreSQL would read all;
-- OFFSET makes it look each up.
-- name: FindTicket :one
SELECT sqlc.embed(t), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now, e.state, e.user_refunds, e.transferable,
       valid_now(t.status, t.used_epoch, e.epoch)::boolean AS valid,
       coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour')::timestamptz AS closes_at,
       least(e.refund_until, coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour'))::timestamptz AS refund_until,
       least(coalesce(e.fees_until, 'epoch'), coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour'))::timestamptz AS fees_until,
       e.postponed_at, e.cancellation_until, e.cancellation_percents,
       coalesce((SELECT f.transfer_id FROM transfers f WHERE f.ticket_id = t.ticket_id AND f.status IN ('OPEN', 'AWAITING_PAYMENT')),
                '00000000-0000-0000-0000-000000000000')::uuid AS offer
FROM tickets t
CROSS JOIN LATERAL (SELECT * FROM events WHERE events.event_id = t.event_id OFFSET 0) e
WHERE t.ticket_id = @ticket_id;

-- name: ListTickets :many
SELECT sqlc.embed(t), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now, e.state, e.user_refunds, e.transferable,
       valid_now(t.status, t.used_epoch, e.epoch)::boolean AS valid,
       coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour')::timestamptz AS closes_at,
       least(e.refund_until, coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour'))::timestamptz AS refund_until,
       least(coalesce(e.fees_until, 'epoch'), coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour'))::timestamptz AS fees_until,
       e.postponed_at, e.cancellation_until, e.cancellation_percents,
       coalesce((SELECT f.transfer_id FROM transfers f WHERE f.ticket_id = t.ticket_id AND f.status IN ('OPEN', 'AWAITING_PAYMENT')),
                '00000000-0000-0000-0000-000000000000')::uuid AS offer
FROM tickets t
CROSS JOIN LATERAL (SELECT * FROM events WHERE events.event_id = t.event_id OFFSET 0) e
WHERE t.user_id = @user_id AND t.ticket_id < @before::uuid
ORDER BY t.ticket_id DESC
LIMIT @max::int;
