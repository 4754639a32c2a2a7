-- name: KeepActs :exec
-- Rows are sorted by their id, so that two batches lock them in the same order; of several with one id the first counts. An outcome that came
-- before its act may have said its event and the digest of its body.
INSERT INTO audit_acts (act_id, occurred_at, user_id, address, method, route, path, event_id, request_id, body, body_sha256)
SELECT DISTINCT ON (act_id) act_id, occurred_at, user_id, address, method, route, path, event_id, request_id, body, body_sha256
FROM (SELECT unnest(@act_ids::uuid[]) AS act_id, unnest(@occurred_at::timestamptz[]) AS occurred_at,
             unnest(@user_ids::text[]) AS user_id, unnest(@addresses::text[]) AS address, unnest(@methods::text[]) AS method,
             unnest(@routes::text[]) AS route, unnest(@paths::text[]) AS path, unnest(@event_ids::text[]) AS event_id,
             unnest(@request_ids::text[]) AS request_id, unnest(@bodies::text[]) AS body,
             unnest(@body_sha256::text[]) AS body_sha256, generate_subscripts(@act_ids::uuid[], 1) AS n) AS acts
ORDER BY act_id, n
ON CONFLICT (act_id) DO UPDATE SET occurred_at = excluded.occurred_at, user_id = excluded.user_id, address = excluded.address,
    method = excluded.method, route = excluded.route, path = excluded.path, request_id = excluded.request_id, body = excluded.body,
    event_id = CASE WHEN excluded.event_id <> '' THEN excluded.event_id ELSE audit_acts.event_id END,
    body_sha256 = CASE WHEN excluded.body_sha256 <> '' THEN excluded.body_sha256 ELSE audit_acts.body_sha256 END
WHERE audit_acts.user_id = '';

-- name: KeepOutcomes :exec
-- The first outcome of an act stays. It changes nothing that the act has said; entries are -1 where there are none.
INSERT INTO audit_acts (act_id, occurred_at, user_id, address, method, route, path, event_id, request_id, body, body_sha256,
                        status, code, ended_at, entries_total, entries_added, entries_removed)
SELECT DISTINCT ON (act_id) act_id, ended_at, '', '', '', '', '', event_id, '', '', body_sha256,
       status, code, ended_at, nullif(total, -1), nullif(added, -1), nullif(removed, -1)
FROM (SELECT unnest(@act_ids::uuid[]) AS act_id, unnest(@event_ids::text[]) AS event_id, unnest(@body_sha256::text[]) AS body_sha256,
             unnest(@statuses::int[]) AS status, unnest(@codes::text[]) AS code, unnest(@ended_at::timestamptz[]) AS ended_at,
             unnest(@total::bigint[]) AS total, unnest(@added::bigint[]) AS added, unnest(@removed::bigint[]) AS removed,
             generate_subscripts(@act_ids::uuid[], 1) AS n) AS outcomes
ORDER BY act_id, n
ON CONFLICT (act_id) DO UPDATE SET status = excluded.status, code = excluded.code, ended_at = excluded.ended_at,
    entries_total = excluded.entries_total, entries_added = excluded.entries_added, entries_removed = excluded.entries_removed,
    event_id = CASE WHEN audit_acts.event_id = '' THEN excluded.event_id ELSE audit_acts.event_id END,
    body_sha256 = CASE WHEN audit_acts.body_sha256 = '' THEN excluded.body_sha256 ELSE audit_acts.body_sha256 END
WHERE audit_acts.status IS NULL;

-- name: CountOtherOutcomes :one
-- How many of the outcomes, all of which KeepOutcomes has got, say something else than is stored.
SELECT count(*)
FROM (SELECT unnest(@act_ids::uuid[]) AS act_id, unnest(@event_ids::text[]) AS event_id, unnest(@body_sha256::text[]) AS body_sha256,
             unnest(@statuses::int[]) AS status, unnest(@codes::text[]) AS code, unnest(@ended_at::timestamptz[]) AS ended_at,
             unnest(@total::bigint[]) AS total, unnest(@added::bigint[]) AS added, unnest(@removed::bigint[]) AS removed) AS o
JOIN audit_acts AS a USING (act_id)
WHERE (a.status, a.code, a.ended_at, coalesce(a.entries_total, -1), coalesce(a.entries_added, -1), coalesce(a.entries_removed, -1))
      IS DISTINCT FROM (o.status, o.code, o.ended_at, o.total, o.added, o.removed)
   OR o.event_id NOT IN ('', a.event_id) OR o.body_sha256 NOT IN ('', a.body_sha256);

-- name: ListActs :many
-- An empty event or user selects all.
SELECT act_id, occurred_at, user_id, address, method, route, path, event_id, request_id, body, body_sha256,
       coalesce(status, 0)::int AS status, coalesce(code, '')::text AS code, ended_at,
       coalesce(entries_total, -1)::bigint AS total, coalesce(entries_added, -1)::bigint AS added, coalesce(entries_removed, -1)::bigint AS removed
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
