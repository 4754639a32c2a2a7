-- The places that the organiser keeps of an event: its house.

-- Seats are locked in the order of their indexes by all transactions. due is the hold of which the time is over.
-- name: LockSeatsForHouse :many
SELECT seat_id, status,
       coalesce(CASE WHEN status = 'HELD' AND held_until <= coalesce(sqlc.narg('now')::timestamptz, now()) THEN reservation_id END,
                '00000000-0000-0000-0000-000000000000')::uuid AS due
FROM seats
WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[])
ORDER BY idx
FOR UPDATE;

-- After seats, as holds of general admission lock them.
-- name: LockStanding :many
SELECT section, house, (capacity - held - sold - house - returns)::bigint AS free
FROM sections
WHERE event_id = @event_id AND section = ANY (@sections::text[]) AND NOT seated
ORDER BY section
FOR UPDATE;

-- name: MoveHouseSeats :execrows
UPDATE seats SET status = @status WHERE event_id = @event_id AND seat_id = ANY (@seat_ids::text[]) AND status = @was;

-- name: HouseSeats :many
SELECT seat_id FROM seats WHERE event_id = @event_id AND status = 'HOUSE' ORDER BY idx;

-- name: HouseSections :many
SELECT s.section, s.seated, s.capacity, s.sold, s.house, s.returns, coalesce(k.comps, 0)::bigint AS comps
FROM sections s
LEFT JOIN (SELECT p.section, count(*) AS comps
           FROM comps c JOIN places p ON p.reservation_id = c.reservation_id
           WHERE c.event_id = @event_id AND p.live GROUP BY p.section) k ON k.section = s.section
WHERE s.event_id = @event_id
ORDER BY s.ordinal;
