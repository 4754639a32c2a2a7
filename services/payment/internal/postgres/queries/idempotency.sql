-- ClaimKey starts a request: under a new key, one that is older than a day, or one whose request died. No row: the key is taken.
-- name: ClaimKey :one
INSERT INTO idempotency_keys AS k (user_id, route, key, fingerprint, running_until)
VALUES ($1, $2, $3, $4, now() + interval '60 seconds')
ON CONFLICT (user_id, route, key) DO UPDATE
SET fingerprint = excluded.fingerprint, running_until = excluded.running_until, created_at = now(), payment_id = NULL, answer = NULL
WHERE k.created_at <= now() - interval '24 hours'
   OR (k.answer IS NULL AND k.running_until <= now() AND k.fingerprint = excluded.fingerprint)
RETURNING true AS claimed;

-- name: GetKey :one
SELECT fingerprint, answer FROM idempotency_keys
WHERE user_id = $1 AND route = $2 AND key = $3 AND created_at > now() - interval '24 hours';

-- name: AnswerKey :exec
UPDATE idempotency_keys SET answer = $4, payment_id = $5 WHERE user_id = $1 AND route = $2 AND key = $3;

-- name: BindKey :exec
UPDATE idempotency_keys SET payment_id = $4 WHERE user_id = $1 AND route = $2 AND key = $3;

-- name: ReleaseKey :exec
DELETE FROM idempotency_keys WHERE user_id = $1 AND route = $2 AND key = $3 AND answer IS NULL;

-- ReleaseRunning lets go what has no final answer.
-- name: ReleaseRunning :exec
DELETE FROM idempotency_keys WHERE payment_id = $1 AND answer IS NULL;

-- AnswerRunning gives the final answer to whichever request is running for the payment.
-- name: AnswerRunning :exec
UPDATE idempotency_keys SET answer = $2 WHERE payment_id = $1 AND answer IS NULL;

-- name: PruneKeys :execrows
DELETE FROM idempotency_keys
WHERE (user_id, route, key) IN (
    SELECT k.user_id, k.route, k.key FROM idempotency_keys AS k
    WHERE k.created_at <= now() - interval '24 hours'
    LIMIT @batch
    FOR UPDATE SKIP LOCKED);
