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
INSERT INTO entitlement_lists (upload_id, event_id, list, status, uploaded_by, updated_at)
VALUES (@upload_id, @event_id, @list, 'UPLOADING', @uploaded_by, coalesce(sqlc.narg('now')::timestamptz, now()));

-- Locks an upload against its end, or against being dropped.
-- name: LockUpload :one
SELECT event_id, list, status FROM entitlement_lists WHERE upload_id = @upload_id AND status IN ('UPLOADING', 'CURRENT') FOR UPDATE;

-- name: InsertEntries :exec
INSERT INTO entitlement_entries (upload_id, is_email, value)
SELECT @upload_id, @is_email::boolean, value FROM unnest(@values::text[]) AS value
ON CONFLICT DO NOTHING;

-- The current list, and how many entries it has; the zero UUID and 0 if there is none.
-- name: CurrentList :one
SELECT coalesce(max(upload_id::text), '00000000-0000-0000-0000-000000000000')::uuid AS upload_id, coalesce(sum(user_ids + emails), 0)::bigint AS entries
FROM entitlement_lists WHERE event_id = @event_id AND list = @list AND status = 'CURRENT';

-- How many users an upload names, and how many of them another one names too.
-- name: CompareUploads :one
SELECT count(*) FILTER (WHERE NOT e.is_email) AS user_ids, count(*) FILTER (WHERE e.is_email) AS emails, count(o.value) AS kept
FROM entitlement_entries e
LEFT JOIN entitlement_entries o ON o.upload_id = @other AND o.is_email = e.is_email AND o.value = e.value
WHERE e.upload_id = @upload_id;

-- name: RetireList :exec
UPDATE entitlement_lists
SET status = 'OLD', updated_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE upload_id = @upload_id;

-- name: FinishUpload :exec
UPDATE entitlement_lists
SET status = 'CURRENT', updated_at = coalesce(sqlc.narg('now')::timestamptz, now()), finished_at = coalesce(sqlc.narg('now')::timestamptz, now()),
    user_ids = @user_ids, emails = @emails, added = @added, removed = @removed, sha256 = @sha256
WHERE upload_id = @upload_id;

-- name: FindUpload :one
SELECT sqlc.embed(l) FROM entitlement_lists l WHERE l.upload_id = @upload_id;

-- name: ListEntitlementLists :many
SELECT sqlc.embed(l)
FROM entitlement_lists l
WHERE l.event_id = @event_id AND l.status = 'CURRENT'
ORDER BY l.list;

-- name: ListEntitlementVersions :many
SELECT sqlc.embed(l)
FROM entitlement_lists l
WHERE l.event_id = @event_id AND l.list = @list AND l.status <> 'UPLOADING' AND l.upload_id < @before
ORDER BY l.upload_id DESC
LIMIT @max::int;

-- The next entries of a list, which are in packs, or have not been packed yet. A pack is read only if the page needs it.
-- name: ReadEntries :many
SELECT is_email, value::text AS value
FROM ((SELECT e.is_email, e.value FROM entitlement_entries e
       WHERE e.upload_id = @upload_id AND (e.is_email, e.value) > (@after_is_email::boolean, @after::text)
       ORDER BY e.is_email, e.value LIMIT @max::int)
      UNION ALL
      (SELECT p.is_email, v.value FROM entitlement_packs p, unnest(p.entries) AS v(value)
       WHERE p.upload_id = @upload_id AND (p.is_email, p.last) > (@after_is_email::boolean, @after::text)
         AND (p.is_email, v.value) > (@after_is_email::boolean, @after::text)
       ORDER BY p.is_email, p.last, v.value LIMIT @max::int)) AS entries
ORDER BY is_email, value
LIMIT @max::int;

-- An upload that was not finished, or a list that was replaced, for an hour, or a packed list after the retention. Whoever adds to it has
-- locked it.
-- name: LockListToDrop :one
SELECT upload_id, status
FROM entitlement_lists
WHERE status <> 'CURRENT' AND updated_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 hour'
  AND (status <> 'PACKED' OR updated_at < coalesce(sqlc.narg('now')::timestamptz, now()) - make_interval(secs => @retention_seconds))
ORDER BY updated_at
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: DropEntries :execrows
DELETE FROM entitlement_entries
WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM entitlement_entries e WHERE e.upload_id = @upload_id LIMIT @max::int));

-- Packs the first entries of a list, and returns how many these were.
-- name: PackEntries :one
WITH first AS (
    DELETE FROM entitlement_entries
    WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM entitlement_entries e WHERE e.upload_id = @upload_id ORDER BY e.is_email, e.value LIMIT @max::int))
    RETURNING is_email, value
), packed AS (
    INSERT INTO entitlement_packs (upload_id, is_email, last, entries)
    SELECT @upload_id, is_email, max(value), array_agg(value ORDER BY value) FROM first GROUP BY is_email
)
SELECT count(*) FROM first;

-- name: MarkPacked :exec
UPDATE entitlement_lists SET status = 'PACKED' WHERE upload_id = @upload_id;

-- name: DropPacks :exec
DELETE FROM entitlement_packs WHERE upload_id = @upload_id;

-- name: DropList :exec
DELETE FROM entitlement_lists WHERE upload_id = @upload_id;
