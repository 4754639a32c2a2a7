-- name: GetPayment :one
SELECT sqlc.embed(payments)
FROM payments WHERE id = $1;

-- name: GetPaymentIDByOrder :one
SELECT id FROM payments WHERE order_id = $1;

-- name: PaymentsOfReference :many
SELECT id FROM payments WHERE payment_type = $1 AND reference_id = $2 ORDER BY id;

-- name: LockPayment :one
SELECT sqlc.embed(payments), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM payments WHERE id = $1 FOR UPDATE;

-- name: LockOpenPayment :one
SELECT sqlc.embed(payments), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM payments
WHERE payment_type = $1 AND reference_id = $2 AND status IN ('PREPARED', 'CONFIRMING', 'UNKNOWN')
FOR UPDATE;

-- name: InsertPayment :one
INSERT INTO payments (
    id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, expires_at, check_at, created_at
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, 'PREPARED', @expires_at, @expires_at, coalesce(sqlc.narg('now')::timestamptz, now())
)
ON CONFLICT (payment_type, reference_id) WHERE status IN ('PREPARED', 'CONFIRMING', 'UNKNOWN') DO NOTHING
RETURNING sqlc.embed(payments);

-- name: IsPaid :one
SELECT EXISTS (
    SELECT 1 FROM payments WHERE payment_type = $1 AND reference_id = $2 AND status = 'CONFIRMED'
);

-- UpdatePayment writes a decision, if the payment still has the status and version that it was made on.
-- name: UpdatePayment :execrows
UPDATE payments
SET status = $2, payment_key = $3, charge_id = $4, decline_code = $5, captured = $6, refunded = $7, hand = $8, hand_used = $9,
    confirming_at = $10, abort_due = $11, check_at = $12, checks = $13, lease = $14, version = version + 1
WHERE id = $1 AND version = @seen_version AND status = @seen_status;

-- ClaimDue takes due payments of a lane, each with a new lease that ends at check_at.
-- name: ClaimDue :many
UPDATE payments AS p
SET lease = p.lease + 1, checks = p.checks + 1,
    check_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @lease_seconds)
FROM (
    SELECT due.id FROM payments AS due
    WHERE due.check_at <= coalesce(sqlc.narg('now')::timestamptz, now())
      AND CASE WHEN due.abort_due THEN 'RELEASES' WHEN due.status = 'PREPARED' AND NOT due.hinted THEN 'EXPIRIES' ELSE 'CHARGES' END
          = @lane::text
    ORDER BY due.check_at LIMIT @batch FOR UPDATE SKIP LOCKED
) AS d
WHERE p.id = d.id
RETURNING sqlc.embed(p), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now;

-- HintPayment makes a payment due under a new lease, so that a look-up that began before cannot settle it. A charge of a confirmed
-- payment is known; its refunds may be made by hand, or fail days later.
-- name: HintPayment :execrows
UPDATE payments SET hinted = true, check_at = coalesce(sqlc.narg('now')::timestamptz, now()), lease = lease + 1
WHERE order_id = @order_id AND (status NOT IN ('CONFIRMED', 'REFUNDED') OR @refund::boolean);

-- name: ReschedulePayment :exec
UPDATE payments SET check_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @wait_seconds)
WHERE id = $1 AND lease = $2 AND check_at IS NOT NULL;

-- name: SettlePayment :exec
UPDATE payments SET check_at = CASE WHEN status = 'PREPARED' THEN expires_at END, checks = 0, abort_due = false, hinted = false
WHERE id = $1 AND lease = $2 AND version = $3;

-- ReleasePayment records the release and makes the payment due at once, so that the provider is asked again.
-- name: ReleasePayment :exec
UPDATE payments SET check_at = coalesce(sqlc.narg('now')::timestamptz, now()), checks = 0, abort_due = false
WHERE id = $1 AND lease = $2 AND version = $3;

-- name: AddTimelineEntry :exec
INSERT INTO payment_timeline (payment_id, at, status, note)
VALUES ($1, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), $2, $3);

-- The latest entries, in order.
-- name: Timeline :many
SELECT t.at, t.status, t.note
FROM (SELECT id, at, status, note FROM payment_timeline WHERE payment_id = $1 ORDER BY id DESC LIMIT 200) AS t
ORDER BY t.id;

-- name: Backlog :one
SELECT (SELECT count(*) FROM payments AS p WHERE p.status IN ('CONFIRMING', 'UNKNOWN')) AS unsettled,
       coalesce((SELECT extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - min(p.confirming_at)) FROM payments AS p
                 WHERE p.status IN ('CONFIRMING', 'UNKNOWN')), 0)::float8 AS unsettled_seconds,
       (SELECT count(*) FROM payments AS p WHERE p.hand > p.hand_used) AS by_hand;
