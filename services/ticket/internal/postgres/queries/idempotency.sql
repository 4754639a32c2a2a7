-- Whoever gets the lock runs the request; until the end of that transaction all others are told that it is running.
-- name: TryLockKeys :many
SELECT k::bigint AS lock, pg_try_advisory_xact_lock(k)::boolean AS got FROM unnest(@locks::bigint[]) AS k;

-- name: FindAnswers :many
SELECT i.user_id, i.key, i.fingerprint, i.made
FROM idempotency_keys i
JOIN (SELECT unnest(@user_ids::text[]) AS user_id, unnest(@keys::text[]) AS key) n ON n.user_id = i.user_id AND n.key = i.key
WHERE i.route = @route AND i.created_at > now() - interval '24 hours';

-- An answer that is still there after its 24 hours gives way.
-- name: SaveAnswers :exec
INSERT INTO idempotency_keys AS i (user_id, route, key, fingerprint, made)
SELECT unnest(@user_ids::text[]), @route::text, unnest(@keys::text[]), unnest(@fingerprints::bytea[]), unnest(@made::text[])
ON CONFLICT (user_id, route, key) DO UPDATE
SET fingerprint = excluded.fingerprint, made = excluded.made, created_at = now()
WHERE i.created_at <= now() - interval '24 hours';

-- name: DeleteOldAnswers :execrows
DELETE FROM idempotency_keys
WHERE (user_id, route, key) IN (
    SELECT i.user_id, i.route, i.key FROM idempotency_keys i
    WHERE i.created_at <= now() - interval '24 hours'
    LIMIT @max::int
    FOR UPDATE SKIP LOCKED);
