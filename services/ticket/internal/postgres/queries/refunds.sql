-- Inserts nothing if the refund was answered before. It waits for a transaction that is answering it.
-- name: InsertClaim :execrows
INSERT INTO refund_claims (refund_id, payment_id, cause, status, begun_at)
VALUES (@refund_id, @payment_id, @cause, @status, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
ON CONFLICT DO NOTHING;

-- Claims are locked before users and places.
-- name: LockClaims :many
SELECT sqlc.embed(refund_claims)
FROM refund_claims
WHERE refund_id = ANY (@refund_ids::uuid[])
ORDER BY refund_id
FOR UPDATE;

-- name: AnswerClaim :execrows
UPDATE refund_claims
SET status = @status, reason = @reason, begun_at = @begun_at, ticket_ids = @ticket_ids, amounts = @amounts,
    membership_id = nullif(@membership_id::uuid, '00000000-0000-0000-0000-000000000000'), membership_amount = @membership_amount,
    present_amount = @present_amount, problem_ids = @problem_ids,
    problem_reasons = @problem_reasons
WHERE refund_id = @refund_id AND status = 'BEGUN';

-- name: EndClaims :execrows
UPDATE refund_claims SET status = @status WHERE refund_id = ANY (@refund_ids::uuid[]) AND status = 'BEGUN';

-- Deletes up to @max claims that claim nothing and are older than 30 days: requests of more than 7 days ago are refused.
-- name: PruneClaims :execrows
DELETE FROM refund_claims
WHERE refund_id = ANY (ARRAY(SELECT c.refund_id FROM refund_claims c
                             WHERE c.status IN ('ABORTED', 'REFUSED') AND c.begun_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '30 days'
                             ORDER BY c.begun_at LIMIT @max::int FOR UPDATE SKIP LOCKED));
