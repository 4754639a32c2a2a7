-- Of each user: whether one of the lists names the user, and whether the user has used a code of one of the code lists. The offsets keep
-- PostgreSQL at one look into an index per user, also with a plan that was cached while the tables were empty.
-- name: EntitledUsers :many
SELECT u.user_id::text AS user_id,
       (EXISTS (SELECT 1 FROM (SELECT 1 FROM entitlement_entries e
                               WHERE e.upload_id = ANY (l.uploads) AND NOT e.is_email AND e.value = u.user_id OFFSET 0) x)
        OR u.email <> ''
           AND EXISTS (SELECT 1 FROM (SELECT 1 FROM entitlement_entries e
                                      WHERE e.upload_id = ANY (l.uploads) AND e.is_email AND e.value = u.email OFFSET 0) x))::boolean AS listed,
       EXISTS (SELECT 1 FROM used_codes c
               WHERE c.event_id = @event_id AND c.user_id = u.user_id
                 AND (SELECT b.code_list = ANY (@code_lists::text[]) AND b.withdrawn_at IS NULL FROM code_batches b
                      WHERE b.batch_id = c.batch_id))::boolean AS used_code
FROM (SELECT unnest(@user_ids::text[]) AS user_id, unnest(@emails::text[]) AS email) u
CROSS JOIN (SELECT ARRAY(SELECT upload_id FROM entitlement_lists WHERE event_id = @event_id AND status = 'CURRENT' AND list = ANY (@lists::text[]))
                   AS uploads) l;

-- name: KnownPlans :many
SELECT plan_id FROM membership_plans WHERE plan_id = ANY (@plan_ids::text[]);

-- name: InsertCodeBatch :exec
INSERT INTO code_batches (batch_id, event_id, code_list, count, uses, created_at)
VALUES (@batch_id, @event_id, @code_list, @count, @uses, coalesce(sqlc.narg('now')::timestamptz, now()));

-- name: InsertCodes :exec
INSERT INTO codes (code_hash, batch_id, uses)
SELECT hash, @batch_id, @uses FROM unnest(@hashes::bytea[]) AS hash;

-- name: ListCodeBatches :many
SELECT sqlc.embed(b), (SELECT coalesce(sum(used), 0) FROM codes c WHERE c.batch_id = b.batch_id)::bigint AS used
FROM code_batches b
WHERE b.event_id = @event_id
ORDER BY b.batch_id DESC;

-- name: FindCodeBatch :one
SELECT sqlc.embed(b), (SELECT coalesce(sum(used), 0) FROM codes c WHERE c.batch_id = b.batch_id)::bigint AS used
FROM code_batches b
WHERE b.event_id = @event_id AND b.batch_id = @batch_id;

-- name: WithdrawCodes :exec
UPDATE code_batches
SET withdrawn_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE event_id = @event_id AND batch_id = @batch_id AND withdrawn_at IS NULL;

-- The user's row of this hour, locked until the end of the transaction, with the wrong codes that the user has tried.
-- name: LockWrongCodes :one
INSERT INTO wrong_codes (user_id, hour)
VALUES (@user_id, date_trunc('hour', coalesce(sqlc.narg('now')::timestamptz, now()), 'UTC'))
ON CONFLICT (user_id, hour) DO UPDATE SET wrong = wrong_codes.wrong
RETURNING wrong, hour;

-- name: CountWrongCode :exec
UPDATE wrong_codes SET wrong = wrong + 1 WHERE user_id = @user_id AND hour = @hour;

-- name: HasUsedCode :one
SELECT EXISTS (SELECT 1 FROM used_codes c
               WHERE c.event_id = @event_id AND c.user_id = @user_id AND c.code_hash = @code_hash
                 AND (SELECT b.withdrawn_at IS NULL FROM code_batches b WHERE b.batch_id = c.batch_id));

-- Takes one use of a code of the event that is neither used up nor withdrawn.
-- name: TakeCode :one
UPDATE codes c
SET used = c.used + 1
WHERE c.code_hash = @code_hash AND c.used < c.uses
  AND (SELECT b.event_id = @event_id AND b.withdrawn_at IS NULL FROM code_batches b WHERE b.batch_id = c.batch_id)
RETURNING c.batch_id;

-- name: InsertUsedCode :exec
INSERT INTO used_codes (event_id, user_id, code_hash, batch_id, used_at)
VALUES (@event_id, @user_id, @code_hash, @batch_id, coalesce(sqlc.narg('now')::timestamptz, now()));

-- name: PruneWrongCodes :execrows
DELETE FROM wrong_codes
WHERE ctid = ANY (ARRAY(SELECT ctid FROM wrong_codes WHERE hour < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '2 hours'
                        ORDER BY hour LIMIT @max::int));

-- name: InsertUpload :exec
INSERT INTO entitlement_lists (upload_id, event_id, list, status, updated_at)
VALUES (@upload_id, @event_id, @list, 'UPLOADING', coalesce(sqlc.narg('now')::timestamptz, now()));

-- Locks an upload against its end, or against being dropped.
-- name: LockUpload :one
SELECT event_id, list, status FROM entitlement_lists WHERE upload_id = @upload_id AND status <> 'OLD' FOR UPDATE;

-- name: InsertEntries :exec
INSERT INTO entitlement_entries (upload_id, is_email, value)
SELECT @upload_id, @is_email::boolean, value FROM unnest(@values::text[]) AS value
ON CONFLICT DO NOTHING;

-- name: RetireList :exec
UPDATE entitlement_lists
SET status = 'OLD', updated_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE event_id = @event_id AND list = @list AND status = 'CURRENT';

-- name: FinishUpload :exec
UPDATE entitlement_lists l
SET status = 'CURRENT', updated_at = coalesce(sqlc.narg('now')::timestamptz, now()),
    user_ids = (SELECT count(*) FROM entitlement_entries e WHERE e.upload_id = l.upload_id AND NOT e.is_email),
    emails = (SELECT count(*) FROM entitlement_entries e WHERE e.upload_id = l.upload_id AND e.is_email)
WHERE l.upload_id = @upload_id;

-- name: FindUpload :one
SELECT list, user_ids, emails, updated_at FROM entitlement_lists WHERE upload_id = @upload_id;

-- name: ListEntitlementLists :many
SELECT list, user_ids, emails, updated_at
FROM entitlement_lists
WHERE event_id = @event_id AND status = 'CURRENT'
ORDER BY list;

-- A list that was replaced, or an upload that was not finished, for an hour. Whoever adds to it has locked it.
-- name: LockListToDrop :one
SELECT upload_id
FROM entitlement_lists
WHERE status <> 'CURRENT' AND updated_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 hour'
ORDER BY updated_at
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: DropEntries :execrows
DELETE FROM entitlement_entries
WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM entitlement_entries e WHERE e.upload_id = @upload_id LIMIT @max::int));

-- name: DropList :exec
DELETE FROM entitlement_lists WHERE upload_id = @upload_id;
