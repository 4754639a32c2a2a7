-- name: InsertTransfer :execrows
INSERT INTO transfers (transfer_id, ticket_id, event_id, seller, claim_hash, to_user, price, currency, status, deadline, version, created_at)
VALUES (@transfer_id, @ticket_id, @event_id, @seller, @claim_hash, nullif(@to_user::text, ''), @price, @currency, @status, @deadline, @version, @created_at)
ON CONFLICT DO NOTHING;

-- The link before is void. None is made for an offer that has ended.
-- name: RenewTransferClaim :execrows
UPDATE transfers SET claim_hash = @claim_hash WHERE transfer_id = @transfer_id AND status IN ('OPEN', 'AWAITING_PAYMENT');

-- What never changes of a transfer, to know what to lock.
-- name: TransferKeys :many
SELECT t.transfer_id, t.ticket_id, t.event_id, t.seller, coalesce((SELECT e.series_id FROM events e WHERE e.event_id = t.event_id), '')::text AS series_id
FROM transfers t
WHERE t.transfer_id = ANY (@transfer_ids::uuid[]);

-- name: TransferOfClaim :one
SELECT transfer_id FROM transfers WHERE claim_hash = @claim_hash;

-- Transfers are locked after their tickets.
-- name: LockTransfers :many
SELECT t.* FROM transfers t WHERE t.transfer_id = ANY (@transfer_ids::uuid[]) ORDER BY t.transfer_id FOR UPDATE;

-- The offers of tickets that may end with them.
-- name: LockOffersOf :many
SELECT t.* FROM transfers t
WHERE t.ticket_id = ANY (@ticket_ids::uuid[]) AND t.status IN ('OPEN', 'AWAITING_PAYMENT') ORDER BY t.transfer_id FOR UPDATE;

-- Offers of an event for which nobody may have been charged.
-- name: LockOffersOfEvent :many
SELECT t.* FROM transfers t
WHERE t.event_id = @event_id AND t.status IN ('OPEN', 'AWAITING_PAYMENT') AND NOT t.charging
ORDER BY t.transfer_id LIMIT @max::int FOR UPDATE;

-- name: UpdateTransfers :execrows
UPDATE transfers t
SET status = c.status, reason = c.reason, buyer = nullif(c.buyer, ''), pay_until = nullif(c.pay_until, 'epoch'),
    pay_ends_at = nullif(c.pay_ends_at, 'epoch'), unpaid = c.unpaid, payment_id = nullif(c.payment_id, '00000000-0000-0000-0000-000000000000'),
    begun = c.begun::uuid[], charging = c.charging, opens = c.opens, new_ticket = nullif(c.new_ticket, '00000000-0000-0000-0000-000000000000'), version = c.version
FROM (SELECT unnest(@transfer_ids::uuid[]) AS id, unnest(@was::bigint[]) AS was, unnest(@statuses::text[]) AS status,
             unnest(@reasons::text[]) AS reason, unnest(@buyers::text[]) AS buyer, unnest(@pay_untils::timestamptz[]) AS pay_until,
             unnest(@pay_ends::timestamptz[]) AS pay_ends_at, unnest(@unpaid::int[]) AS unpaid, unnest(@payment_ids::uuid[]) AS payment_id,
             unnest(@begun::text[]) AS begun, unnest(@charging::boolean[]) AS charging, unnest(@opens::int[]) AS opens, unnest(@new_tickets::uuid[]) AS new_ticket, unnest(@versions::bigint[]) AS version) c
WHERE t.transfer_id = c.id AND t.version = c.was;

-- name: SetBuyerContact :exec
INSERT INTO transfer_contacts (transfer_id, user_id, email, language) VALUES (@transfer_id, @user_id, @email, @language)
ON CONFLICT (transfer_id, user_id) DO UPDATE SET email = excluded.email, language = excluded.language;

-- Who has accepted an offer is in its contacts. The transfer is locked.
-- name: GiveUpTransfer :exec
UPDATE transfer_contacts SET gave_up = true WHERE transfer_id = @transfer_id AND user_id = @user_id;

-- name: HasGivenUp :one
SELECT EXISTS (SELECT 1 FROM transfer_contacts WHERE transfer_id = @transfer_id AND user_id = @user_id AND gave_up);

-- Whether a user is blocked at an event, and whether one more place of an order counts for the user's limit: it is sold, and the user
-- has not had it before. LATERAL and OFFSET make PostgreSQL look up each row, also while the tables are empty.
-- name: CountsForLimit :one
SELECT (r.origin = 'SALE' AND r.user_id <> @user_id::text
        AND NOT EXISTS (SELECT 1 FROM tickets h WHERE h.event_id = k.event_id AND h.user_id = @user_id::text AND h.prev IS NOT NULL
                        AND h.reservation_id = k.reservation_id AND h.n = k.n))::boolean AS counts
FROM tickets k
CROSS JOIN LATERAL (SELECT * FROM reservations WHERE reservations.reservation_id = k.reservation_id OFFSET 0) r
WHERE k.ticket_id = @ticket_id;

-- name: BlockedAt :one
SELECT coalesce((SELECT @user_id::text = ANY (l.blocked_users) FROM line_settings l WHERE l.event_id = @event_id), false)::boolean;

-- name: AcceptedBy :many
SELECT transfer_id FROM transfers WHERE event_id = @event_id AND buyer = @user_id::text AND status = 'AWAITING_PAYMENT';

-- name: DueTransfers :many
SELECT transfer_id
FROM transfers
WHERE status IN ('OPEN', 'AWAITING_PAYMENT') AND coalesce(pay_until, deadline) <= coalesce(sqlc.narg('now')::timestamptz, now())
ORDER BY charging DESC, coalesce(pay_until, deadline) -- doors wait for the tickets of charges
LIMIT @max::int;

-- Payments that are under way for transfers, and whether their time to pay is short.
-- name: PayingTransfers :many
SELECT t.transfer_id AS reference_id, p.payment_id::uuid AS payment_id, (t.pay_until < coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @short_seconds::int))::boolean AS short
FROM (SELECT unnest(@reference_ids::uuid[]) AS transfer_id, unnest(@payment_ids::uuid[]) AS payment_id) p
CROSS JOIN LATERAL (SELECT * FROM transfers WHERE transfers.transfer_id = p.transfer_id OFFSET 0) t
WHERE t.status = 'AWAITING_PAYMENT' AND t.payment_id = p.payment_id AND t.pay_until > coalesce(sqlc.narg('now')::timestamptz, now());

-- name: FindTransfer :one
SELECT sqlc.embed(t), sqlc.embed(k), e.title, e.statement_suffix, e.starts_at, e.time_zone, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM transfers t
JOIN tickets k ON k.ticket_id = t.ticket_id
CROSS JOIN LATERAL (SELECT * FROM events WHERE events.event_id = t.event_id OFFSET 0) e
WHERE t.transfer_id = @transfer_id;

-- name: ListTransfers :many
SELECT sqlc.embed(t), sqlc.embed(k), e.title, e.statement_suffix, e.starts_at, e.time_zone, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM transfers t
JOIN tickets k ON k.ticket_id = t.ticket_id
CROSS JOIN LATERAL (SELECT * FROM events WHERE events.event_id = t.event_id OFFSET 0) e
WHERE t.transfer_id = ANY (ARRAY(
    (SELECT s.transfer_id FROM transfers s WHERE s.seller = @user_id::text AND s.transfer_id < @before::uuid ORDER BY s.transfer_id DESC LIMIT @max::int)
    UNION
    (SELECT b.transfer_id FROM transfers b WHERE b.buyer = @user_id::text AND b.transfer_id < @before::uuid ORDER BY b.transfer_id DESC LIMIT @max::int)
    UNION
    (SELECT o.transfer_id FROM transfers o
     WHERE o.to_user = @user_id::text AND o.status = 'OPEN' AND o.transfer_id < @before::uuid ORDER BY o.transfer_id DESC LIMIT @max::int)))
ORDER BY t.transfer_id DESC
LIMIT @max::int;

-- Offers that may still be completed, and those whose time has been over for a minute.
-- name: CountOffers :one
SELECT count(*) FILTER (WHERE status = 'OPEN') AS open, count(*) FILTER (WHERE status = 'AWAITING_PAYMENT') AS awaited,
       count(*) FILTER (WHERE coalesce(pay_until, deadline) < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 minute') AS overdue
FROM transfers
WHERE status IN ('OPEN', 'AWAITING_PAYMENT');
