-- name: InsertTickets :exec
INSERT INTO tickets (ticket_id, reservation_id, event_id, user_id, section, seat_id, price, currency, status, serial)
SELECT unnest(@ticket_ids::uuid[]), unnest(@reservation_ids::uuid[]), unnest(@event_ids::text[]), unnest(@user_ids::text[]),
       unnest(@sections::text[]), nullif(unnest(@seat_ids::text[]), ''), unnest(@prices::bigint[]), unnest(@currencies::text[]),
       'VALID', 1;

-- name: RefundTickets :execrows
UPDATE tickets
SET status = 'REFUNDED', updated_at = now()
WHERE reservation_id = ANY (@reservation_ids::uuid[]) AND status IN ('VALID', 'REFUNDING');

-- name: FindTicket :one
SELECT sqlc.embed(tickets)
FROM tickets
WHERE ticket_id = $1;

-- name: ListTickets :many
SELECT sqlc.embed(tickets)
FROM tickets
WHERE user_id = @user_id AND ticket_id < @before::uuid
ORDER BY ticket_id DESC
LIMIT @max::int;
