-- No row: nobody ever put settings for the id, and no event has it.
-- name: LineSettings :one
SELECT l.threshold, l.slot_seconds, coalesce(l.paused, false)::boolean AS paused,
       coalesce(l.blocked_users, '{}')::text[] AS blocked_users, e.sales_close_at
FROM (SELECT @event_id::text AS id) q
LEFT JOIN line_settings l ON l.event_id = q.id
LEFT JOIN events e ON e.event_id = q.id
WHERE l.event_id IS NOT NULL OR e.event_id IS NOT NULL;

-- Members that are NULL stay as they are; the blocked user, unless empty, is added once.
-- name: ChangeLine :exec
INSERT INTO line_settings AS l (event_id, threshold, paused, blocked_users)
VALUES (@event_id, sqlc.narg(threshold), coalesce(sqlc.narg(paused)::boolean, false),
        CASE WHEN @block_user::text = '' THEN '{}'::text[] ELSE ARRAY[@block_user::text] END)
ON CONFLICT (event_id) DO UPDATE
SET threshold = coalesce(sqlc.narg(threshold), l.threshold),
    paused = coalesce(sqlc.narg(paused)::boolean, l.paused),
    blocked_users = CASE WHEN @block_user::text = '' OR @block_user::text = ANY (l.blocked_users)
                         THEN l.blocked_users ELSE l.blocked_users || @block_user::text END,
    updated_at = now();

-- What the operator puts with the event; NULL means the queue's default here.
-- name: PutLine :exec
INSERT INTO line_settings (event_id, threshold, slot_seconds)
VALUES ($1, $2, $3)
ON CONFLICT (event_id) DO UPDATE SET threshold = $2, slot_seconds = $3, updated_at = now();
