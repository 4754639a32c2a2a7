-- Tickets that operators have ended.

-- name: InsertVoids :exec
INSERT INTO voids (ticket_id, operator, reason, voided_at)
SELECT unnest(@ticket_ids::uuid[]), @operator, @reason, @voided_at;

-- All tickets of an order, also those that have ended.
-- name: TicketIDsOfOrder :many
SELECT ticket_id FROM tickets
WHERE (reservation_id = @reservation_id AND status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED'))
   OR (reservation_id = @reservation_id AND status IN ('TRANSFERRED', 'REFUNDED', 'VOIDED'));

-- name: VoidsOfTickets :many
SELECT ticket_id, operator, reason, voided_at FROM voids WHERE ticket_id = ANY (@ticket_ids::uuid[]);
