-- Orders without a payment, from the house.

-- Its places are SOLD at once. Those of general admission are written with their tickets.
-- name: InsertComp :exec
WITH r AS (
    INSERT INTO reservations (reservation_id, origin, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at,
                              hold_ends_at, version, created_at)
    VALUES (@reservation_id, 'COMP', @event_id, @user_id, '', @section, @quantity, 0, @currency, 'CONFIRMED', @created_at, @created_at, @version,
            @created_at)
), c AS (
    INSERT INTO comps (reservation_id, event_id, name, claim_hash) VALUES (@reservation_id, @event_id, @name, sqlc.narg('claim_hash')::bytea)
)
INSERT INTO places (reservation_id, n, event_id, section, seat_id, price)
SELECT @reservation_id, p.n, @event_id, split_part(p.seat_id, '-', 1), p.seat_id, 0
FROM unnest(@seat_ids::text[]) WITH ORDINALITY AS p (seat_id, n);

-- name: SellHouseSeats :execrows
UPDATE seats SET status = 'SOLD', reservation_id = @reservation_id::uuid
WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[]) AND status = 'HOUSE';

-- The claim before is void. None is made for an order that somebody has, or that has ended.
-- name: RenewClaim :execrows
UPDATE comps c SET claim_hash = @claim_hash
WHERE c.reservation_id = @reservation_id AND c.claim_hash IS NOT NULL
  AND EXISTS (SELECT 1 FROM reservations r WHERE r.reservation_id = c.reservation_id AND r.user_id = '' AND r.status = 'CONFIRMED');

-- name: LockComp :one
SELECT reservation_id, user_id
FROM reservations
WHERE reservation_id = (SELECT c.reservation_id FROM comps c WHERE c.claim_hash = @claim_hash) AND status = 'CONFIRMED'
FOR UPDATE;

-- name: GiveComp :execrows
UPDATE reservations
SET user_id = @user_id, email = @email, language = @language, version = version + 1, updated_at = now()
WHERE reservation_id = @reservation_id AND user_id = '';

-- Tickets are locked in order, as everywhere. The new serial voids the codes that operators have read.
-- name: GiveTickets :many
WITH own AS (
    SELECT o.ticket_id FROM tickets o
    WHERE o.reservation_id = @reservation_id AND o.status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED')
    ORDER BY o.ticket_id FOR UPDATE)
UPDATE tickets t SET user_id = @user_id, serial = t.serial + 1, updated_at = now() FROM own WHERE t.ticket_id = own.ticket_id AND t.user_id = ''
RETURNING sqlc.embed(t), valid_now(t.status, t.used_epoch, (SELECT e.epoch FROM events e WHERE e.event_id = t.event_id))::boolean AS valid;

-- name: FindComp :one
SELECT sqlc.embed(r), c.name, (c.claim_hash IS NOT NULL)::boolean AS by_link,
       ARRAY(SELECT t.ticket_id FROM tickets t
             WHERE t.reservation_id = r.reservation_id AND t.status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED') ORDER BY t.n)::uuid[] AS ticket_ids
FROM comps c JOIN reservations r USING (reservation_id)
WHERE c.reservation_id = @reservation_id;

-- name: ListComps :many
SELECT sqlc.embed(r), c.name, (c.claim_hash IS NOT NULL)::boolean AS by_link,
       ARRAY(SELECT t.ticket_id FROM tickets t
             WHERE t.reservation_id = r.reservation_id AND t.status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED') ORDER BY t.n)::uuid[] AS ticket_ids
FROM comps c JOIN reservations r USING (reservation_id)
WHERE c.event_id = @event_id AND c.reservation_id < @before::uuid
ORDER BY c.reservation_id DESC
LIMIT @max::int;
