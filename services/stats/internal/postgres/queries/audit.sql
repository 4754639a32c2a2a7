-- name: KeepActs :exec
-- Rows have different ids and come sorted by them, so that two batches lock them in the same order.
-- Status 0 is that of an act without an outcome. Some acts learn their event with it.
INSERT INTO audit_acts (act_id, occurred_at, user_id, address, method, route, path, event_id, request_id, body, body_sha256,
                        status, code, ended_at)
SELECT act_id, occurred_at, user_id, address, method, route, path, event_id, request_id, body, body_sha256,
       nullif(status, 0), CASE WHEN status <> 0 THEN code END, CASE WHEN status <> 0 THEN ended_at END
FROM (SELECT unnest(@act_ids::uuid[]) AS act_id, unnest(@occurred_at::timestamptz[]) AS occurred_at,
             unnest(@user_ids::text[]) AS user_id, unnest(@addresses::text[]) AS address, unnest(@methods::text[]) AS method,
             unnest(@routes::text[]) AS route, unnest(@paths::text[]) AS path, unnest(@event_ids::text[]) AS event_id,
             unnest(@request_ids::text[]) AS request_id, unnest(@bodies::text[]) AS body,
             unnest(@body_sha256::text[]) AS body_sha256, unnest(@statuses::int[]) AS status, unnest(@codes::text[]) AS code,
             unnest(@ended_at::timestamptz[]) AS ended_at) AS acts
ON CONFLICT (act_id) DO UPDATE SET status = excluded.status, code = excluded.code, ended_at = excluded.ended_at,
    event_id = CASE WHEN audit_acts.event_id = '' THEN excluded.event_id ELSE audit_acts.event_id END
WHERE audit_acts.status IS NULL AND excluded.status IS NOT NULL;

-- name: ListActs :many
-- An empty event or user selects all.
SELECT act_id, occurred_at, user_id, address, method, route, path, event_id, request_id, body, body_sha256,
       coalesce(status, 0)::int AS status, coalesce(code, '')::text AS code, ended_at
FROM audit_acts
WHERE (@event_id::text = '' OR event_id = @event_id) AND (@user_id::text = '' OR user_id = @user_id)
  AND occurred_at >= @since::timestamptz AND occurred_at < @until::timestamptz
  AND (occurred_at, act_id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY occurred_at DESC, act_id DESC
LIMIT @count::int;

-- name: ActOffsets :many
SELECT partition, next_offset FROM audit_offsets;

-- name: SaveActOffset :exec
INSERT INTO audit_offsets (partition, next_offset) VALUES (@partition, @next_offset)
ON CONFLICT (partition) DO UPDATE SET next_offset = greatest(audit_offsets.next_offset, excluded.next_offset);

-- name: PruneActs :execrows
DELETE FROM audit_acts WHERE act_id = ANY (ARRAY(
    SELECT act_id FROM audit_acts WHERE occurred_at < @before::timestamptz
    ORDER BY occurred_at LIMIT @count::int
    FOR UPDATE SKIP LOCKED));
