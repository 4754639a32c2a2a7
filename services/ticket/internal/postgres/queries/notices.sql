-- Notices, and what is sent of them.

-- name: InsertNotices :exec
INSERT INTO notices (notice_id, type, entity, event_id, data, created_at)
SELECT l.notice_id, l.type, l.entity, l.event_id, l.data::json, coalesce(sqlc.narg('now')::timestamptz, now())
FROM (SELECT unnest(@notice_ids::uuid[]) AS notice_id, unnest(@types::text[]) AS type, unnest(@entities::text[]) AS entity,
             unnest(@event_ids::text[]) AS event_id, unnest(@data::text[]) AS data) l;

-- One replica at a time writes deliveries, so that those about one entity are in order.
-- name: LockWalk :one
SELECT pg_try_advisory_xact_lock(hashtextextended('notices', 0));

-- Without e-mails not those of which others have begun to write them.
-- name: NoticesToWalk :many
SELECT * FROM notices WHERE NOT walked AND (@mails::boolean OR walked_to IS NULL) ORDER BY n LIMIT @max::int;

-- name: QueueForWebhooks :exec
INSERT INTO deliveries (lane, notice_id, entity, next_at)
SELECT w.webhook_id, n.notice_id, n.entity, coalesce(sqlc.narg('now')::timestamptz, now())
FROM notices n
JOIN webhooks w ON n.type = ANY (w.types)
WHERE n.notice_id = ANY (@notice_ids::uuid[])
ORDER BY n.n
ON CONFLICT (lane, notice_id, user_id) DO NOTHING;

-- E-mails about an order, or what a rejected payment was for, to the users who are named, where their addresses are known: of the order or
-- membership, or of who has accepted a ticket. Those to one user go one after the other. The refunds of a cancelled event go to all who have
-- paid, so they have the lane of what goes to everybody.
-- name: QueueMails :exec
INSERT INTO deliveries (lane, notice_id, entity, user_id, email, language, next_at)
SELECT CASE WHEN n.data ->> 'cause' = 'EVENT_CANCELLED' THEN @to_all::uuid ELSE @of_orders::uuid END,
       n.notice_id, n.entity || ' ' || u.user_id, u.user_id, c.email, c.language, coalesce(sqlc.narg('now')::timestamptz, now())
FROM notices n
CROSS JOIN LATERAL (SELECT CASE WHEN n.notice_id = ANY (@notice_ids::uuid[]) THEN n.entity::uuid END AS id OFFSET 0) o
CROSS JOIN LATERAL (SELECT DISTINCT x.user_id
                    FROM (VALUES (n.data ->> 'userId'), (n.data ->> 'sellerId'), (n.data ->> 'buyerId')) x (user_id)
                    WHERE x.user_id <> '') u
CROSS JOIN LATERAL (SELECT r.email, r.language FROM reservations r
                    WHERE r.reservation_id = o.id AND r.user_id = u.user_id AND r.email <> ''
                    UNION ALL
                    (SELECT b.email, b.language FROM transfers t
                     JOIN tickets k ON k.ticket_id = t.ticket_id
                     JOIN transfer_contacts b ON b.transfer_id = t.transfer_id AND b.user_id = t.buyer
                     WHERE t.buyer = u.user_id AND t.status = 'COMPLETED' AND b.email <> '' AND k.reservation_id = o.id
                     ORDER BY t.transfer_id DESC LIMIT 1)
                    UNION ALL
                    SELECT b.email, b.language FROM transfer_contacts b
                    WHERE b.transfer_id = o.id AND b.user_id = u.user_id AND b.email <> ''
                    UNION ALL
                    SELECT m.email, m.language FROM memberships m
                    WHERE m.membership_id = o.id AND m.user_id = u.user_id AND m.email <> ''
                    LIMIT 1) c
WHERE n.notice_id = ANY (@notice_ids::uuid[])
ORDER BY n.n
ON CONFLICT (lane, notice_id, user_id) DO NOTHING;

-- name: OrdersToTell :many
SELECT reservation_id FROM reservations
WHERE event_id = @event_id AND reservation_id > @after AND status IN ('CONFIRMED', 'REJECTED', 'REFUNDED', 'VOIDED')
ORDER BY event_id, reservation_id
LIMIT @max::int;

-- E-mails about an event to the holders of tickets of these orders, also of those that its cancellation has ended.
-- name: QueueMailsOfOrders :exec
INSERT INTO deliveries (lane, notice_id, entity, user_id, email, language, next_at)
SELECT @to_all::uuid, @notice_id, @event_id::text || ' ' || u.user_id, u.user_id, c.email, c.language,
       coalesce(sqlc.narg('now')::timestamptz, now())
FROM unnest(@reservation_ids::uuid[]) AS o (id)
CROSS JOIN LATERAL (SELECT k.user_id FROM tickets k
                    WHERE k.reservation_id = o.id AND k.status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED')
                    UNION
                    SELECT k.user_id FROM tickets k
                    WHERE k.reservation_id = o.id AND k.status = 'REFUNDED'
                      AND coalesce((SELECT f.cause FROM refund_claims f WHERE f.refund_id = k.refund_id), 'EVENT_CANCELLED') = 'EVENT_CANCELLED'
                   ) u
CROSS JOIN LATERAL (SELECT r.email, r.language FROM reservations r
                    WHERE r.reservation_id = o.id AND r.user_id = u.user_id AND r.email <> ''
                    UNION ALL
                    (SELECT b.email, b.language FROM transfers t
                     JOIN tickets k ON k.ticket_id = t.ticket_id
                     JOIN transfer_contacts b ON b.transfer_id = t.transfer_id AND b.user_id = t.buyer
                     WHERE t.buyer = u.user_id AND t.status = 'COMPLETED' AND b.email <> '' AND k.reservation_id = o.id
                     ORDER BY t.transfer_id DESC LIMIT 1)
                    LIMIT 1) c
ON CONFLICT (lane, notice_id, user_id) DO NOTHING;

-- name: MoveWalk :exec
UPDATE notices SET walked_to = @walked_to WHERE notice_id = @notice_id;

-- The events whose tickets' codes are due now.
-- name: CodesDue :many
UPDATE events
SET codes_sent = epoch
WHERE codes_from > 0 AND codes_sent < epoch AND transferable = 'NONE' AND state IN ('OPEN', 'PAUSED')
  AND coalesce(doors_at, starts_at) - make_interval(hours => codes_from) <= coalesce(sqlc.narg('now')::timestamptz, now())
  AND starts_at > coalesce(sqlc.narg('now')::timestamptz, now())
RETURNING event_id, title, starts_at;

-- What an e-mail says about its event, and what of the user's tickets comes back. OFFSET keeps PostgreSQL from reading all of the event's
-- tickets by an index that suits the conditions on their statuses. Full refunds are said to end a minute before the doors get their lists
-- at the latest, as pages show it, and only to who has bought before the postponement.
-- name: EventOfMail :one
SELECT e.title, e.venue, e.starts_at, e.time_zone,
       (e.codes_from > 0 AND e.transferable = 'NONE' AND e.state IN ('OPEN', 'PAUSED')
        AND coalesce(e.doors_at, e.starts_at) - make_interval(hours => e.codes_from) <= t.now)::boolean AS codes,
       f.until AS fees_until,
       (e.state IN ('OPEN', 'PAUSED') AND f.until > t.now AND o.refundable)::boolean AS refundable, (e.state = 'ENDED' AND o.owed)::boolean AS owed
FROM events e
CROSS JOIN LATERAL (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) t
CROSS JOIN LATERAL (SELECT least(coalesce(e.fees_until, 'epoch'), coalesce(e.closes_at, e.doors_at, e.starts_at - interval '1 hour') - interval '1 minute')::timestamptz AS until) f
CROSS JOIN LATERAL (SELECT coalesce(bool_or(k.payment_id IS NOT NULL AND k.chosen_at < e.postponed_at AND k.given < k.paid AND valid_now(k.status, k.used_epoch, e.epoch)), false) AS refundable,
                           coalesce(bool_or(k.status IN ('VALID', 'USED', 'TRANSFERRING') AND k.given < k.paid
                                            OR k.status IN ('REFUNDING', 'REFUNDED') AND k.paid > 0
                                               AND (SELECT c.cause FROM refund_claims c WHERE c.refund_id = k.refund_id) = 'EVENT_CANCELLED'), false) AS owed
                    FROM (SELECT * FROM tickets WHERE tickets.event_id = e.event_id AND tickets.user_id = @user_id OFFSET 0) k) o
WHERE e.event_id = @event_id;

-- The valid tickets of a user for an event.
-- name: TicketsOfMail :many
SELECT ticket_id, event_id, section, seat_id, serial
FROM tickets k
WHERE k.event_id = @event_id AND k.user_id = @user_id
  AND valid_now(k.status, k.used_epoch, (SELECT e.epoch FROM events e WHERE e.event_id = k.event_id))
ORDER BY k.event_id, k.user_id, k.ticket_id
LIMIT @max::int;

-- name: MarkWalked :exec
UPDATE notices SET walked = true WHERE notice_id = ANY (@notice_ids::uuid[]);

-- Takes due deliveries for a while (mine). One that has to wait for an earlier one of its entity is put off until that one is tried, or
-- is over: whoever ends that one says so.
-- name: ClaimDeliveries :many
WITH t AS (
    SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now
), due AS (
    SELECT d.seq, e.next_at AS earlier
    FROM deliveries d
    CROSS JOIN t
    LEFT JOIN LATERAL (SELECT b.next_at FROM deliveries b
                       WHERE b.lane = d.lane AND b.entity = d.entity AND b.state = 'PENDING' AND b.seq < d.seq
                       ORDER BY b.lane, b.entity, b.seq LIMIT 1) e ON true
    WHERE d.lane = @lane AND d.state = 'PENDING' AND d.next_at <= t.now
    ORDER BY d.lane, d.next_at
    LIMIT @max::int
    FOR UPDATE OF d SKIP LOCKED
), moved AS (
    UPDATE deliveries d
    SET next_at = greatest(due.earlier, t.now + make_interval(secs => @lease_seconds::float8)),
        attempts = d.attempts + CASE WHEN due.earlier IS NULL THEN 1 ELSE 0 END,
        tried_from = coalesce(d.tried_from, CASE WHEN due.earlier IS NULL THEN t.now END)
    FROM due, t
    WHERE d.seq = due.seq
    RETURNING d.seq, d.notice_id, d.entity, d.user_id, d.email, d.language, d.attempts, d.failures, coalesce(d.tried_from, t.now)::timestamptz AS tried_from, due.earlier IS NULL AS mine
)
SELECT m.seq, m.attempts, m.failures, m.tried_from, m.mine::boolean AS mine, m.user_id, m.email, m.language, n.notice_id, n.type, m.entity, n.event_id, n.data, n.created_at
FROM moved m
JOIN notices n USING (notice_id);

-- name: EndDelivery :execrows
UPDATE deliveries
SET state = @state, delivered_at = CASE WHEN @state = 'DELIVERED' THEN coalesce(sqlc.narg('now')::timestamptz, now()) END,
    last_status = @last_status, last_error = @last_error, failures = failures + CASE WHEN @state = 'DELIVERED' THEN 0 ELSE 1 END
WHERE seq = @seq AND attempts = @attempts AND state = 'PENDING';

-- name: RetryDelivery :execrows
UPDATE deliveries
SET failures = failures + 1, last_status = @last_status, last_error = @last_error,
    next_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @after_seconds::float8)
WHERE seq = @seq AND attempts = @attempts AND state = 'PENDING';

-- name: WakeNext :exec
UPDATE deliveries d
SET next_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE d.seq = (SELECT f.seq FROM deliveries f WHERE f.lane = @lane AND f.entity = @entity AND f.state = 'PENDING'
               ORDER BY f.lane, f.entity, f.seq LIMIT 1)
  AND d.failures = 0;

-- name: LockWebhooks :exec
SELECT pg_advisory_xact_lock(hashtextextended('webhooks', 0));

-- name: ListWebhooks :many
SELECT * FROM webhooks ORDER BY name;

-- name: FindWebhook :one
SELECT * FROM webhooks WHERE name = @name;

-- name: InsertWebhook :one
INSERT INTO webhooks (webhook_id, name, url, types, secret, created_at, updated_at)
SELECT @webhook_id, @name, @url, @types::text[], @secret, t.now, t.now
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) t
RETURNING *;

-- name: UpdateWebhook :one
UPDATE webhooks w
SET url = @url, types = @types::text[], secret = n.secret, updated_at = t.now,
    former_secret = CASE WHEN n.secret <> w.secret THEN w.secret ELSE w.former_secret END,
    former_until = CASE WHEN n.secret <> w.secret THEN t.now + make_interval(secs => @overlap_seconds::int) ELSE w.former_until END
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) t, (SELECT @secret::text AS secret) n
WHERE w.name = @name
RETURNING w.*;

-- name: DeleteWebhook :exec
DELETE FROM webhooks WHERE name = @name;

-- name: ListDeliveries :many
SELECT d.notice_id, n.type, d.entity, d.state, d.attempts, d.last_status, d.last_error, n.created_at, d.next_at, d.delivered_at
FROM deliveries d
JOIN notices n USING (notice_id)
WHERE d.lane = @lane AND d.notice_id < @before
ORDER BY d.lane DESC, d.notice_id DESC
LIMIT @max::int;

-- The notices of these types from a time on, or those with these ids, that are walked: others are going to be sent.
-- name: NoticesSince :many
SELECT notice_id, created_at FROM notices
WHERE created_at >= @since AND type = ANY (@types::text[]) AND walked
ORDER BY created_at, n
LIMIT @max::int;

-- name: NoticesOfIDs :many
SELECT notice_id FROM notices WHERE notice_id = ANY (@notice_ids::uuid[]) AND type = ANY (@types::text[]) AND walked;

-- name: Requeue :execrows
INSERT INTO deliveries AS d (lane, notice_id, entity, next_at)
SELECT @lane, n.notice_id, n.entity, coalesce(sqlc.narg('now')::timestamptz, now())
FROM notices n
WHERE n.notice_id = ANY (@notice_ids::uuid[])
ORDER BY n.n
FOR KEY SHARE -- old ones are being deleted
ON CONFLICT (lane, notice_id, user_id) DO UPDATE
SET state = 'PENDING', delivered_at = NULL, failures = 0, tried_from = NULL, next_at = excluded.next_at
WHERE d.state <> 'PENDING';

-- name: CountDeliveries :one
SELECT (SELECT count(*) FROM deliveries p WHERE p.lane = @lane AND p.state = 'PENDING') AS pending,
       (SELECT count(*) FROM deliveries f WHERE f.lane = @lane AND f.state = 'FAILED') AS failed,
       coalesce((SELECT extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - min(coalesce(o.tried_from, o.next_at)))
                 FROM deliveries o WHERE o.lane = @lane AND o.state = 'PENDING'), 0)::float8 AS oldest_seconds;

-- How long the oldest notice waits for its deliveries to be written.
-- name: OldestToWalk :one
SELECT coalesce(extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - min(n.created_at)), 0)::float8 AS seconds
FROM notices n
WHERE NOT n.walked;

-- Deliveries go with their notices.
-- name: PruneNotices :execrows
DELETE FROM notices
WHERE notice_id IN (SELECT o.notice_id FROM notices o
                    WHERE o.created_at < coalesce(sqlc.narg('now')::timestamptz, now()) - make_interval(days => @keep_days::int)
                    ORDER BY o.created_at LIMIT @max::int FOR UPDATE SKIP LOCKED);
