-- name: GetPayment :one
SELECT sqlc.embed(payments)
FROM payments WHERE id = $1;

-- name: GetPaymentIDByOrder :one
SELECT id FROM payments WHERE order_id = $1;

-- name: GetOrderOfCharge :one
SELECT order_id FROM payments WHERE provider = @provider AND charge_id = @charge_id AND charge_id <> '' LIMIT 1;

-- name: PaymentIDsByReference :many
SELECT id FROM payments WHERE payment_type = $1 AND reference_id = $2 ORDER BY id;

-- name: LockPayment :one
SELECT sqlc.embed(payments), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM payments WHERE id = $1 FOR UPDATE;

-- name: LockOpenPayment :one
SELECT sqlc.embed(payments), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM payments
WHERE payment_type = $1 AND reference_id = $2 AND status IN ('PREPARED', 'OPEN', 'CONFIRMING', 'UNKNOWN')
FOR UPDATE;

-- name: InsertPayment :one
INSERT INTO payments (
    id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, expires_at, check_at, page_token, created_at
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, 'PREPARED', @expires_at, @expires_at, @page_token, coalesce(sqlc.narg('now')::timestamptz, now())
)
ON CONFLICT (payment_type, reference_id) WHERE status IN ('PREPARED', 'OPEN', 'CONFIRMING', 'UNKNOWN') DO NOTHING
RETURNING sqlc.embed(payments);

-- Not by a payment that was rejected and is being given back: of a transfer the next buyer may pay.
-- name: IsPaid :one
SELECT EXISTS (
    SELECT 1 FROM payments WHERE payment_type = $1 AND reference_id = $2 AND status = 'CONFIRMED'
       AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.payment_id = payments.id AND r.cause = 'COMPENSATION' AND r.holds)
);

-- UpdatePayment writes a decision, if the payment still has the status and version that it was made on.
-- name: UpdatePayment :execrows
UPDATE payments
SET status = $2, payment_key = $3, charge_id = $4, decline_code = $5, captured = $6, refunded = $7, hand = $8, hand_used = $9,
    confirming_at = $10, abort_due = $11, check_at = $12, checks = $13, lease = $14, version = version + 1,
    provider_ref = @provider_ref, page_url = @page_url, expires_at = @expires_at, charged_at = @charged_at,
    attempt = @attempt, no_charge = @no_charge, extend_at = @extend_at, cancel_due = @cancel_due, hinted = @hinted,
    disputed_at = @disputed_at,
    captured_at = CASE WHEN $6::bigint > 0 THEN coalesce(captured_at, sqlc.narg('now')::timestamptz, now()) END
WHERE id = $1 AND version = @seen_version AND status = @seen_status;

-- ClaimDue takes due payments of a lane and of the given providers, each with a new lease that ends at check_at.
-- name: ClaimDue :many
UPDATE payments AS p
SET lease = p.lease + 1, checks = p.checks + 1,
    check_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @lease_seconds)
FROM (
    SELECT due.id FROM payments AS due
    WHERE due.check_at <= coalesce(sqlc.narg('now')::timestamptz, now())
      AND (sqlc.narg('providers')::text[] IS NULL OR due.provider = ANY (sqlc.narg('providers')::text[]))
      AND CASE WHEN due.abort_due THEN 'RELEASES'
               WHEN NOT due.hinted AND (due.status = 'PREPARED' OR due.status = 'OPEN' AND due.provider_ref = '' AND due.payment_key = '')
                   THEN 'EXPIRIES'
               WHEN due.status = 'OPEN' AND (due.payment_key <> '' OR due.hinted) THEN 'PAGES'
               ELSE 'CHARGES' END = @lane::text
    ORDER BY due.check_at LIMIT @batch FOR UPDATE SKIP LOCKED
) AS d
WHERE p.id = d.id
RETURNING sqlc.embed(p), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now;

-- HintPayment makes a payment due under a new lease, so that a look-up that began before cannot settle it, at most once in 5 s. A look-up
-- that is still to come serves this hint too (it is due at hint_at), as does the charge of a payment whose buyer is back. A charge of a
-- confirmed payment is known; its refunds may be made by hand, or fail days later.
-- name: HintPayment :execrows
UPDATE payments
SET hinted = true, lease = lease + 1,
    hint_at = greatest(coalesce(sqlc.narg('now')::timestamptz, now()), hint_at + interval '5 seconds'),
    check_at = least(check_at, greatest(coalesce(sqlc.narg('now')::timestamptz, now()), hint_at + interval '5 seconds'))
WHERE order_id = @order_id AND (status NOT IN ('CONFIRMED', 'REFUNDED') OR @refund::boolean)
  AND NOT (hinted AND coalesce(check_at <= hint_at, false)) AND NOT (status = 'OPEN' AND payment_key <> '');

-- name: ReschedulePayment :exec
UPDATE payments SET check_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @wait_seconds)
WHERE id = $1 AND lease = $2 AND check_at IS NOT NULL;

-- SettlePayment ends a check. Of a payment that has ended without a charge the provider is asked again an hour and a day later, and of a
-- disputed one every day.
-- name: SettlePayment :exec
UPDATE payments
SET check_at = CASE WHEN status IN ('PREPARED', 'OPEN') THEN expires_at
                    WHEN disputed_at IS NOT NULL THEN coalesce(sqlc.narg('now')::timestamptz, now()) + interval '1 day'
                    WHEN status IN ('DECLINED', 'EXPIRED') AND (charged_at IS NOT NULL OR provider_ref <> '') AND looks < 2
                        THEN coalesce(sqlc.narg('now')::timestamptz, now()) + CASE looks WHEN 0 THEN interval '1 hour' ELSE interval '23 hours' END END,
    looks = looks + CASE WHEN status IN ('DECLINED', 'EXPIRED') AND looks < 2 THEN 1 ELSE 0 END,
    checks = 0, abort_due = false, cancel_due = false, hinted = false
WHERE id = $1 AND lease = $2 AND version = $3;

-- PollPayment ends a check of an open payment, of which the provider is asked again after a while.
-- name: PollPayment :exec
UPDATE payments
SET check_at = least(expires_at, coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @wait_seconds)), hinted = false
WHERE id = $1 AND lease = $2 AND version = $3;

-- DueExtensions takes payments that ticket has not settled yet, each until a minute later.
-- name: DueExtensions :many
UPDATE payments AS p
SET extend_at = coalesce(sqlc.narg('now')::timestamptz, now()) + interval '1 minute'
FROM (SELECT due.id FROM payments AS due WHERE due.extend_at <= coalesce(sqlc.narg('now')::timestamptz, now())
      ORDER BY due.extend_at LIMIT @batch FOR UPDATE SKIP LOCKED) AS d
WHERE p.id = d.id
RETURNING sqlc.embed(p);

-- name: SettledAtTicket :exec
UPDATE payments SET extend_at = NULL WHERE id = ANY (@ids::uuid[]) AND status IN ('CONFIRMED', 'REFUNDED');

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
       (SELECT count(*) FROM payments AS p WHERE p.hand > p.hand_used
            AND NOT EXISTS (SELECT FROM refunds AS r WHERE r.payment_id = p.id AND r.cause = 'BY_HAND' AND r.reason = 'DISPUTE_LOST')) AS by_hand,
       (SELECT count(*) FROM payments AS p WHERE p.disputed_at IS NOT NULL) AS disputed,
       (SELECT count(*) FROM payments AS p WHERE p.check_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 minute'
            AND p.provider <> ALL (coalesce(sqlc.narg('providers')::text[], ARRAY[p.provider]))) AS unserved;
