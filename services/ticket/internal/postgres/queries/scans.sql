-- The event at a door. Its lock comes before those of tickets: whoever cancels or postpones the event waits for the check-ins that have read
-- it, and later ones read the new state.
-- name: LockDoor :one
SELECT state, epoch, coalesce(closes_at, doors_at, starts_at - interval '1 hour')::timestamptz AS closes_at,
       coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM events
WHERE event_id = @event_id
FOR SHARE;

-- The event of a door's list, and how many tickets may yet get another holder.
-- name: Door :one
SELECT state, epoch, coalesce(closes_at, doors_at, starts_at - interval '1 hour')::timestamptz AS closes_at,
       coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now,
       (SELECT count(*) FROM tickets t WHERE t.event_id = e.event_id AND t.status = 'TRANSFERRING') AS transferring
FROM events e
WHERE e.event_id = @event_id;

-- The id of the last ticket says where the next page begins. Its user changes only if it had none.
-- name: DoorTickets :many
SELECT t.ticket_id, t.serial, (t.user_id = '')::boolean AS unclaimed
FROM tickets t
WHERE t.event_id = @event_id AND valid_now(t.status, t.used_epoch, @epoch::integer)
  AND (t.user_id, t.ticket_id) > (coalesce((SELECT l.user_id FROM tickets l WHERE l.ticket_id = @after::uuid AND NOT @unclaimed::boolean), ''), @after::uuid)
ORDER BY t.user_id, t.ticket_id
LIMIT @max::int;

-- name: FindScans :many
SELECT sqlc.embed(scans)
FROM scans
WHERE event_id = @event_id AND scan_id = ANY (@scan_ids::uuid[]);

-- name: FindAdmission :one
SELECT sqlc.embed(scans)
FROM scans
WHERE event_id = @event_id AND epoch = @epoch AND ticket_id = @ticket_id::uuid AND result = 'ADMITTED';

-- Inserts all but those that a concurrent upload has inserted.
-- name: InsertScans :execrows
INSERT INTO scans (event_id, scan_id, ticket_id, epoch, device, user_id, result, scanned_at, recorded_at)
SELECT @event_id, s.scan_id, nullif(s.ticket_id, '00000000-0000-0000-0000-000000000000'), @epoch, @device, @user_id, s.result, s.scanned_at,
       @recorded_at
FROM (SELECT unnest(@scan_ids::uuid[]) AS scan_id, unnest(@ticket_ids::uuid[]) AS ticket_id, unnest(@results::text[]) AS result,
             unnest(@scanned_at::timestamptz[]) AS scanned_at) s
ON CONFLICT (event_id, scan_id) DO NOTHING;

-- The status is a parameter, so that the partial index of the admitted ones is no choice.
-- name: UndoScan :execrows
UPDATE scans SET result = @result WHERE event_id = @event_id AND scan_id = @scan_id AND result = @was;

-- name: DoorCounts :one
SELECT (SELECT coalesce(sum(s.sold), 0) FROM sections s WHERE s.event_id = e.event_id)::bigint AS sold,
       (SELECT count(*) FROM scans a WHERE a.event_id = e.event_id AND a.epoch = e.epoch AND a.result = 'ADMITTED') AS checked_in,
       (SELECT count(*) FROM scans c WHERE c.event_id = e.event_id AND c.result NOT IN ('ADMITTED', 'UNDONE')) AS conflicts
FROM events e
WHERE e.event_id = @event_id;

-- name: ListConflicts :many
SELECT sqlc.embed(scans)
FROM scans
WHERE event_id = @event_id AND result NOT IN ('ADMITTED', 'UNDONE') AND n < @before
ORDER BY n DESC
LIMIT @max::int;

-- Counts up to @max scans that are not in the published counts, or are and were undone: by event, and by the minute in which the door read
-- the code, but never later than the platform heard of it. Replicas skip each other's scans.
-- name: CountScans :many
WITH due AS (
    UPDATE scans AS s SET counted = NOT s.counted
    WHERE s.ctid = ANY (ARRAY(SELECT d.ctid FROM scans d WHERE d.counted <> (d.result = 'ADMITTED')
                                AND d.recorded_at <= coalesce(sqlc.narg('now')::timestamptz, now())
                              ORDER BY d.recorded_at LIMIT @max::int FOR UPDATE SKIP LOCKED))
    RETURNING s.event_id, date_trunc('minute', least(s.scanned_at, s.recorded_at)) AS minute, s.counted
)
SELECT event_id, minute::timestamptz AS minute, count(*) AS scans, sum(CASE WHEN counted THEN 1 ELSE -1 END)::bigint AS checked_in
FROM due GROUP BY event_id, minute ORDER BY event_id, minute;
