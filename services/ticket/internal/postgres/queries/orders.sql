-- The orders that a user has made, and those with a ticket of the user.
-- name: OrdersOfUser :many
SELECT DISTINCT o.reservation_id
FROM ((SELECT r.reservation_id FROM reservations r
       WHERE r.user_id = @user_id AND r.reservation_id < @before::uuid AND (@event_id::text = '' OR r.event_id = @event_id)
       ORDER BY r.reservation_id DESC LIMIT @max::int)
      UNION ALL
      SELECT t.reservation_id FROM tickets t
      WHERE t.user_id = @user_id AND t.reservation_id < @before::uuid AND (@event_id::text = '' OR t.event_id = @event_id)) o
ORDER BY o.reservation_id DESC
LIMIT @max::int;

-- The two conditions are event_id = @event_id. So written, only the index of events has this order: else PostgreSQL may walk back through the
-- orders of all events until it finds enough, as it takes them for mixed.
-- name: OrdersOfEvent :many
SELECT reservation_id
FROM reservations
WHERE event_id >= @event_id AND (event_id, reservation_id) < (@event_id, @before::uuid) AND status IN ('CONFIRMED', 'REJECTED', 'REFUNDED', 'VOIDED')
ORDER BY event_id DESC, reservation_id DESC
LIMIT @max::int;

-- Whoever has the seat, and whoever had a ticket for it.
-- name: OrdersOfSeat :many
SELECT p.reservation_id FROM places p WHERE p.event_id = @event_id AND p.seat_id = @seat_id::text AND p.live
UNION
SELECT t.reservation_id FROM tickets t
WHERE t.event_id = @event_id AND t.seat_id = @seat_id::text AND t.status IN ('TRANSFERRED', 'REFUNDED', 'VOIDED');

-- The orders of ids, newest first.
-- name: FindOrders :many
SELECT sqlc.embed(reservations), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM reservations
WHERE reservation_id = ANY (@reservation_ids::uuid[])
ORDER BY reservation_id DESC;

-- name: HoldersOfOrders :many
SELECT reservation_id, user_id FROM tickets
WHERE (reservation_id = ANY (@reservation_ids::uuid[]) AND status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED'))
   OR (reservation_id = ANY (@reservation_ids::uuid[]) AND status IN ('TRANSFERRED', 'REFUNDED', 'VOIDED'));

-- name: TicketsOfOrder :many
SELECT sqlc.embed(t), valid_now(t.status, t.used_epoch, (SELECT e.epoch FROM events e WHERE e.event_id = t.event_id))::boolean AS valid
FROM tickets t
WHERE (t.reservation_id = @reservation_id AND t.status IN ('VALID', 'REFUNDING', 'TRANSFERRING', 'USED'))
   OR (t.reservation_id = @reservation_id AND t.status IN ('TRANSFERRED', 'REFUNDED', 'VOIDED'))
ORDER BY t.n, t.ticket_id;

-- name: ScansOfTickets :many
SELECT sqlc.embed(scans) FROM scans
WHERE ticket_id = ANY (@ticket_ids::uuid[])
ORDER BY n;
