-- Returns no row when the id has neither settings nor an event. A line of a cancelled event is closed when its refunds begin: an undo must
-- find its places.
-- name: LineSettings :one
SELECT l.threshold, l.slot_seconds, coalesce(l.paused, false)::boolean AS paused,
       coalesce(l.blocked_users, '{}')::text[] AS blocked_users, e.sales_close_at,
       coalesce(e.state = 'ENDED' OR e.sales_close_at <= coalesce(sqlc.narg('now')::timestamptz, now()), false)::boolean AS closed,
       (l.event_id IS NOT NULL AND l.opened_at IS NULL)::boolean AS never_opened,
       coalesce((SELECT max(a.act) FROM line_acts a WHERE a.event_id = q.id), 0)::bigint AS act
FROM (SELECT @event_id::text AS id) q
LEFT JOIN line_settings l ON l.event_id = q.id
LEFT JOIN events e ON e.event_id = q.id
WHERE l.event_id IS NOT NULL OR e.event_id IS NOT NULL;

-- Members that are NULL stay unchanged. block_user, unless empty, is added once, or unblock_user is removed. No row is changed if more users
-- than the maximum would be blocked.
-- name: ChangeLine :execrows
INSERT INTO line_settings AS l (event_id, threshold, paused, blocked_users)
VALUES (@event_id, sqlc.narg(threshold), coalesce(sqlc.narg(paused)::boolean, false),
        CASE WHEN @block_user::text = '' THEN '{}'::text[] ELSE ARRAY[@block_user::text] END)
ON CONFLICT (event_id) DO UPDATE
SET threshold = coalesce(sqlc.narg(threshold), l.threshold),
    paused = coalesce(sqlc.narg(paused)::boolean, l.paused),
    blocked_users = CASE WHEN @block_user::text = '' OR @block_user::text = ANY (l.blocked_users)
                         THEN array_remove(l.blocked_users, nullif(@unblock_user::text, '')) ELSE l.blocked_users || @block_user::text END,
    updated_at = now()
WHERE @block_user::text = '' OR @block_user::text = ANY (l.blocked_users) OR cardinality(l.blocked_users) < @max_blocked::int;

-- Changes no row if the setting has this act or a later one.
-- name: OrderAct :execrows
INSERT INTO line_acts AS a (event_id, setting, act, stored_at)
VALUES (@event_id, @setting, @act, coalesce(sqlc.narg('now')::timestamptz, now()))
ON CONFLICT (event_id, setting) DO UPDATE SET act = excluded.act, stored_at = excluded.stored_at WHERE a.act < excluded.act;

-- name: ActOf :one
SELECT act FROM line_acts WHERE event_id = @event_id AND setting = @setting;

-- A threshold that is put with the event is later than all acts on it before.
-- name: OrderPut :exec
INSERT INTO line_acts AS a (event_id, setting, act, stored_at)
VALUES (@event_id, 'threshold', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, coalesce(sqlc.narg('now')::timestamptz, now()))
ON CONFLICT (event_id, setting) DO UPDATE SET act = greatest(a.act + 1, excluded.act), stored_at = excluded.stored_at;

-- Deletes up to @max acts that were stored more than 30 days ago. A replica of queue that brings an earlier act to ticket only now would
-- have had no answer for as long.
-- name: PruneActs :execrows
DELETE FROM line_acts
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM line_acts WHERE stored_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '30 days'
    ORDER BY stored_at LIMIT @max::int FOR UPDATE SKIP LOCKED));

-- Sets what the operator puts with the event. Members that are NULL stay unchanged.
-- name: PutLine :exec
INSERT INTO line_settings AS l (event_id, threshold, slot_seconds)
VALUES (@event_id, sqlc.narg(threshold), sqlc.narg(slot_seconds))
ON CONFLICT (event_id) DO UPDATE
SET threshold = coalesce(sqlc.narg(threshold), l.threshold), slot_seconds = coalesce(sqlc.narg(slot_seconds), l.slot_seconds),
    updated_at = now();

-- name: LockLine :exec
SELECT 1 FROM line_settings WHERE event_id = $1 FOR UPDATE;

-- name: MarkLineOpened :execrows
UPDATE line_settings SET opened_at = now() WHERE event_id = $1 AND opened_at IS NULL;
