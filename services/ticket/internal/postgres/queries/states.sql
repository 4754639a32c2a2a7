-- What operators do to an event. Each statement names the states that it changes; of two at once one changes nothing.

-- name: MoveState :execrows
UPDATE events SET state = @state, version = version + 1, updated_at = now() WHERE event_id = @event_id AND state = @was;

-- name: CancelEvent :execrows
UPDATE events
SET state = 'CANCELLED', undo_to = state, refund_after = t.now + make_interval(secs => @grace_seconds::int),
    walk_at = t.now + make_interval(secs => @grace_seconds::int), version = version + 1, updated_at = now()
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) t
WHERE event_id = @event_id AND state IN ('OPEN', 'PAUSED');

-- name: UndoCancel :execrows
UPDATE events
SET state = undo_to, undo_to = NULL, refund_after = NULL, walk_at = NULL, version = version + 1, updated_at = now()
WHERE event_id = @event_id AND state = 'CANCELLED';

-- name: BeginRefunds :many
UPDATE events
SET state = 'ENDED', undo_to = NULL, refund_after = t.now, walk_at = t.now, version = version + 1, updated_at = now()
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) t
WHERE event_id = @event_id AND state = 'CANCELLED'
RETURNING event_id, title, starts_at;

-- Ends the cancelled events whose grace is over.
-- name: EndCancelled :many
UPDATE events
SET state = 'ENDED', undo_to = NULL, version = version + 1, updated_at = now()
WHERE state = 'CANCELLED' AND walk_at <= coalesce(sqlc.narg('now')::timestamptz, now())
RETURNING event_id, title, starts_at;

-- Leases the ended event that has waited longest. Replicas skip each other's.
-- name: LeaseEnded :many
UPDATE events
SET walk_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @lease_seconds::int)
WHERE event_id = (SELECT e.event_id FROM events e
                  WHERE e.state = 'ENDED' AND e.walk_at <= coalesce(sqlc.narg('now')::timestamptz, now())
                  ORDER BY e.walk_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING event_id, walk_after;

-- An event of which nothing is left to do is looked at less and less often, but always again: a refund that is aborted makes a ticket
-- valid.
-- name: ReturnEnded :exec
UPDATE events
SET walk_after = @after,
    walk_at = t.now + CASE WHEN @left_over::boolean THEN interval '1 second'
                           ELSE least(greatest((t.now - refund_after) / 10, interval '1 second'), interval '1 hour') END
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) t
WHERE event_id = @event_id AND state = 'ENDED';

-- name: HoldsOf :many
SELECT reservation_id FROM reservations WHERE event_id = @event_id AND status IN ('HELD', 'PAYING') LIMIT @max::int;

-- The tickets of an event whose money is owed, or that admit somebody, from a user on; those of a user one after the other.
-- name: OwedTickets :many
SELECT reservation_id, ticket_id, user_id
FROM tickets
WHERE event_id = @event_id AND user_id >= @after::text AND (status IN ('VALID', 'USED') OR (status IN ('TRANSFERRED', 'VOIDED') AND given < paid))
ORDER BY event_id, user_id
LIMIT @max::int;

-- name: InsertBegunClaim :exec
INSERT INTO refund_claims (refund_id, payment_id, cause, status, begun_at, ticket_ids, amounts)
VALUES (@refund_id, @payment_id, @cause, 'BEGUN', @begun_at, @ticket_ids, @amounts);

-- name: EventStanding :one
SELECT e.state, e.refund_after,
       (SELECT count(*) FROM reservations r WHERE r.event_id = e.event_id AND r.status IN ('HELD', 'PAYING')) AS holds,
       (SELECT count(*) FROM reservations r WHERE r.event_id = e.event_id AND r.status = 'CONFIRMED') AS orders,
       t.tickets, t.refunds
FROM events e
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE k.status IN ('VALID', 'USED', 'TRANSFERRING')) AS tickets,
                           count(DISTINCT k.refund_id) FILTER (WHERE k.status = 'REFUNDING') AS refunds
                    FROM tickets k WHERE k.event_id = e.event_id) t
WHERE e.event_id = @event_id;

-- What is left of ended events: unpaid reservations, and orders with places that were not given back.
-- name: CountRemaining :one
SELECT coalesce(sum(l.holds), 0)::bigint AS holds, coalesce(sum(l.orders), 0)::bigint AS orders
FROM events e
CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE r.status <> 'CONFIRMED') AS holds, count(*) FILTER (WHERE r.status = 'CONFIRMED') AS orders
                    FROM reservations r WHERE r.event_id = e.event_id AND r.status IN ('HELD', 'PAYING', 'CONFIRMED')) l
WHERE e.state = 'ENDED';

-- The lists of doors are void, and closes_at follows the new times, unless it is given, as by a delay while people come in. An end of
-- refunds that would be later goes. Cancellation fees stay as long before the start. Where the start stays, and only other times change,
-- whoever has bought since the postponement gets no right by it.
-- name: PostponeEvent :exec
UPDATE events e
SET postponed_from = e.starts_at, starts_at = n.starts_at, doors_at = n.doors_at, closes_at = n.closes_at,
    postponed_at = CASE WHEN n.starts_at = e.starts_at THEN coalesce(e.postponed_at, n.now) ELSE n.now END,
    refund_until = CASE WHEN e.refund_until <= coalesce(n.closes_at, n.doors_at, n.starts_at - interval '1 hour') THEN e.refund_until END,
    sales_close_at = @sales_close_at, fees_until = @fees_until,
    cancellation_until = ARRAY(SELECT c.until + greatest(n.starts_at - e.starts_at, interval '0')
                               FROM unnest(e.cancellation_until) WITH ORDINALITY c (until, step) ORDER BY c.step),
    epoch = e.epoch + CASE WHEN n.closes_at IS NULL THEN 1 ELSE 0 END, version = e.version + 1, updated_at = now()
FROM (SELECT @starts_at::timestamptz AS starts_at, sqlc.narg('doors_at')::timestamptz AS doors_at,
             sqlc.narg('closes_at')::timestamptz AS closes_at, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) n
WHERE e.event_id = @event_id;

-- Tickets, also those that were given back, and buyers who may be charged already.
-- name: HasBuyers :one
SELECT (EXISTS (SELECT 1 FROM tickets t WHERE t.event_id = @event_id)
        OR EXISTS (SELECT 1 FROM reservations r WHERE r.event_id = @event_id AND r.status IN ('PAYING', 'CONFIRMED')))::boolean;
