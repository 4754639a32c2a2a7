-- name: InsertRefund :execrows
INSERT INTO refunds (id, payment_id, amount, cause, reason, attempt_at, created_at)
VALUES ($1, $2, $3, $4, $5, coalesce(sqlc.narg('now')::timestamptz, now()), coalesce(sqlc.narg('now')::timestamptz, now()))
ON CONFLICT (payment_id) WHERE cause = 'COMPENSATION' DO NOTHING;

-- name: PendingRefundAmount :one
SELECT coalesce(sum(amount), 0)::bigint FROM refunds WHERE payment_id = $1 AND status = 'PENDING';

-- ClaimRefunds takes due refunds, each with a new lease that ends at attempt_at.
-- name: ClaimRefunds :many
UPDATE refunds AS r
SET lease = r.lease + 1, attempts = r.attempts + 1,
    attempt_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @lease_seconds)
FROM (
    SELECT due.id FROM refunds AS due
    WHERE due.status = 'PENDING' AND due.attempt_at <= coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY due.attempt_at LIMIT @batch FOR UPDATE SKIP LOCKED
) AS d, payments AS p
WHERE r.id = d.id AND p.id = r.payment_id
RETURNING r.id, r.payment_id, p.order_id, r.amount, r.cause, r.reason, r.attempts, r.lease, r.created_at;

-- name: FinishRefund :execrows
UPDATE refunds
SET status = 'DONE', provider_refund_id = $2, done_at = coalesce(sqlc.narg('now')::timestamptz, now()), last_error = ''
WHERE id = $1 AND status = 'PENDING';

-- name: RetryRefund :execrows
UPDATE refunds
SET attempt_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @wait_seconds), last_error = @last_error
WHERE id = $1 AND lease = $2 AND status = 'PENDING';
