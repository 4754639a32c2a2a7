-- Places that were given back, or of holds that have ended, until they are for sale again.

-- The sections of which less than 5 % is free; with @with_returns what was given back counts as free. Holds that have expired do not. Of
-- seats no more are read than show that enough are, and none where the counters say that they cannot be.
-- name: ScarceSections :many
SELECT s.event_id, s.section
FROM sections s
JOIN (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@sections::text[]) AS section) w USING (event_id, section)
WHERE CASE WHEN (s.capacity - s.held - s.sold - s.house - CASE WHEN @with_returns::boolean THEN 0 ELSE s.returns END) * 20 < s.capacity THEN true
           WHEN NOT s.seated THEN false
           ELSE 20 * (SELECT count(*)
                      FROM (SELECT 1
                            FROM seats x
                            WHERE x.event_id = s.event_id AND x.idx BETWEEN s.first_idx AND s.first_idx + s.capacity - 1
                              AND (x.status = 'FREE' OR x.status = 'RETURNED' AND @with_returns::boolean)
                            LIMIT (s.capacity + 19) / 20) f) < s.capacity
      END;

-- name: InsertReturns :exec
INSERT INTO returns (event_id, section, seat_id, release_at, giver, unpaid)
SELECT unnest(@event_ids::text[]), unnest(@sections::text[]), nullif(unnest(@seat_ids::text[]), ''), unnest(@release_at::timestamptz[]),
       nullif(unnest(@givers::text[]), ''), unnest(@unpaid::boolean[]);

-- Replicas skip each other's.
-- name: TakeDueReturns :many
DELETE FROM returns
WHERE return_id = ANY (ARRAY(
    SELECT return_id FROM returns WHERE release_at <= coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY release_at LIMIT @max::int FOR UPDATE SKIP LOCKED))
RETURNING event_id, section, coalesce(seat_id, '')::text AS seat_id, unpaid;

-- Seats are locked in the order of their indexes by all transactions.
-- name: LockReturnedSeats :exec
SELECT 1
FROM seats s
JOIN (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@seat_ids::text[]) AS seat_id) r USING (event_id, seat_id)
ORDER BY s.event_id, s.idx
FOR UPDATE OF s;

-- Those of general admission come before those of seats, as everywhere.
-- name: LockStandingSections :exec
SELECT 1
FROM sections s
JOIN (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@sections::text[]) AS section) r USING (event_id, section)
WHERE NOT s.seated
ORDER BY s.event_id, s.section
FOR UPDATE OF s;

-- name: ReleaseSeats :execrows
UPDATE seats s
SET status = r.status
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@seat_ids::text[]) AS seat_id, unnest(@statuses::text[]) AS status) r
WHERE s.event_id = r.event_id AND s.seat_id = r.seat_id AND s.status IN ('RETURNED', 'DELAYED');
