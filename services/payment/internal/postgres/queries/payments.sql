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
    id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, expires_at, check_at, page_token, mode, created_at,
    description, statement_suffix, email, page_token_sha256
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, 'PREPARED', @expires_at, @expires_at, @page_token, @mode, coalesce(sqlc.narg('now')::timestamptz, now()),
    @description, @statement_suffix, @email, @page_token_sha256
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
    provider_ref = @provider_ref, page_url = @page_url, page_token = @page_token, expires_at = @expires_at, charged_at = @charged_at,
    attempt = @attempt, no_charge = @no_charge, kept_code = @kept_code, extend_at = @extend_at, cancel_due = @cancel_due, hinted = @hinted,
    returned = returned AND (@hinted OR $2 = 'CONFIRMING'), disputed_at = @disputed_at, goodwill = @goodwill, receipt_url = @receipt_url, evidence_due_at = @evidence_due_at,
    email = CASE WHEN $2 = 'PREPARED' THEN email ELSE '' END,
    captured_at = CASE WHEN $6::bigint > 0 THEN coalesce(captured_at, sqlc.narg('now')::timestamptz, now()) END
WHERE id = $1 AND version = @seen_version AND status = @seen_status;

-- ClaimDue takes due payments of a lane and of the given providers, each with a new lease that ends at check_at. Lanes that call the provider
-- get those of the given mode only.
-- name: ClaimDue :many
UPDATE payments AS p
SET lease = p.lease + 1, checks = p.checks + 1,
    check_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @lease_seconds)
FROM (
    SELECT due.id FROM payments AS due
    WHERE due.check_at <= coalesce(sqlc.narg('now')::timestamptz, now())
      AND (sqlc.narg('providers')::text[] IS NULL OR due.provider = ANY (sqlc.narg('providers')::text[]))
      AND (@mode::text = '' OR due.mode = @mode OR due.provider = 'none' OR @lane::text IN ('EXPIRIES', 'RELEASES'))
      AND CASE WHEN due.abort_due THEN 'RELEASES'
               WHEN NOT due.hinted AND (due.status = 'PREPARED' OR due.status = 'OPEN' AND due.provider_ref = '' AND due.payment_key = '')
                   THEN 'EXPIRIES'
               WHEN due.status = 'OPEN' AND (due.payment_key <> '' OR due.hinted) THEN 'PAGES'
               WHEN due.status IN ('CONFIRMING', 'UNKNOWN') OR due.status = 'DECLINED' AND due.cancel_due THEN 'CHARGES'
               ELSE 'LOOKS' END = @lane::text
    ORDER BY due.payment_key <> '' AND due.status = 'OPEN' DESC, due.returned DESC, due.check_at LIMIT @batch FOR UPDATE SKIP LOCKED
) AS d
WHERE p.id = d.id
RETURNING sqlc.embed(p), coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now;

-- HintPayment makes a payment due under a new lease, so that a look-up that began before cannot settle it, at most once in 5 s. A look-up
-- that is still to come serves this hint too (it is due at hint_at), as does the charge of a payment whose buyer is back. A charge of a
-- confirmed payment is known; its refunds may be made by hand, or fail days later. Anybody who knows an order can send an unsigned hint: it
-- changes nothing after the end, and for a confirmed payment it counts once in 10 min. Whoever comes back to an unpaid page again and again waits
-- longer each time, up to a minute. If the buyer of an open page is back, that is noted even
-- while a look-up is to come: such looks go first.
-- name: HintPayment :execrows
UPDATE payments
SET hinted = true, returned = returned OR @returned::boolean AND status = 'OPEN', lease = lease + 1,
    extend_at = CASE WHEN status = 'OPEN' AND NOT @unsigned::boolean THEN coalesce(extend_at, expires_at - interval '1 minute') ELSE extend_at END,
    hint_at = greatest(coalesce(sqlc.narg('now')::timestamptz, now()),
                       hint_at + CASE WHEN @unsigned::boolean AND status = 'CONFIRMED' THEN interval '10 minutes'
                                 WHEN status = 'OPEN' THEN make_interval(secs => 5 * least(12, greatest(1, checks - 4)))
                                 ELSE interval '5 seconds' END),
    check_at = least(check_at, greatest(coalesce(sqlc.narg('now')::timestamptz, now()),
                       hint_at + CASE WHEN @unsigned::boolean AND status = 'CONFIRMED' THEN interval '10 minutes'
                                 WHEN status = 'OPEN' THEN make_interval(secs => 5 * least(12, greatest(1, checks - 4)))
                                 ELSE interval '5 seconds' END))
WHERE order_id = @order_id AND (status NOT IN ('CONFIRMED', 'REFUNDED') OR @refund::boolean)
  AND NOT (@unsigned::boolean AND (status IN ('DECLINED', 'EXPIRED', 'REFUNDED') OR provider <> @provider))
  AND NOT (hinted AND coalesce(check_at <= hint_at, false) AND (returned OR NOT @returned)) AND NOT (status = 'OPEN' AND payment_key <> '');

-- name: WarnOfFraud :execrows
UPDATE payments SET warned_at = coalesce(sqlc.narg('now')::timestamptz, now()), fraud_type = @fraud_type
WHERE order_id = @order_id AND warned_at IS NULL;

-- name: ListDisputed :many
SELECT sqlc.embed(payments) FROM payments WHERE disputed_at IS NOT NULL AND id < @before::uuid ORDER BY id DESC LIMIT @max::int;

-- name: ListWarned :many
SELECT sqlc.embed(payments) FROM payments
WHERE warned_at IS NOT NULL AND disputed_at IS NULL AND status = 'CONFIRMED' AND id < @before::uuid ORDER BY id DESC LIMIT @max::int;

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
    checks = 0, abort_due = false, cancel_due = false, hinted = false, returned = false,
    extend_at = CASE WHEN status = 'OPEN' THEN NULL ELSE extend_at END
WHERE id = $1 AND lease = $2 AND version = $3;

-- PollPayment ends a check of an open payment, of which the provider is asked again after a while.
-- name: PollPayment :exec
UPDATE payments
SET check_at = least(expires_at, coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @wait_seconds)), hinted = false, returned = false,
    extend_at = NULL
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

-- AheadOf counts the payments that are looked at before one whose buyer is back, up to 2000: every buyer who waits asks.
-- name: AheadOf :one
SELECT count(*) FROM (SELECT FROM payments AS ahead
WHERE ahead.status = 'OPEN' AND ahead.hinted AND ahead.provider = (SELECT mine.provider FROM payments AS mine WHERE mine.id = $1)
  AND ahead.check_at < (SELECT mine.check_at FROM payments AS mine WHERE mine.id = $1) LIMIT 2000) AS before;

-- name: LockUser :exec
SELECT pg_advisory_xact_lock(hashtextextended(@user_id, 0));

-- PagesOf counts the pages of the latest time that were opened for a user, or may still be.
-- name: PagesOf :one
SELECT count(*) AS pages, coalesce(min(created_at), now())::timestamptz AS oldest, coalesce(sqlc.narg('now')::timestamptz, now())::timestamptz AS now
FROM (SELECT created_at, status, page_token_sha256, page_url FROM payments WHERE user_id = @user_id ORDER BY id DESC LIMIT 100) AS latest
WHERE page_token_sha256 <> '' AND (page_url <> '' OR status = 'PREPARED')
  AND created_at > coalesce(sqlc.narg('now')::timestamptz, now()) - make_interval(secs => @within_seconds);

-- name: Backlog :one
SELECT (SELECT count(*) FROM payments AS p WHERE p.status IN ('CONFIRMING', 'UNKNOWN')) AS unsettled,
       coalesce((SELECT extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - min(p.confirming_at)) FROM payments AS p
                 WHERE p.status IN ('CONFIRMING', 'UNKNOWN')), 0)::float8 AS unsettled_seconds,
       (SELECT count(*) FROM payments AS p WHERE p.hand > p.hand_used + p.goodwill
            AND NOT EXISTS (SELECT FROM refunds AS r WHERE r.payment_id = p.id AND r.cause = 'BY_HAND' AND r.reason = 'DISPUTE_LOST'
                            AND r.provider_id IS NOT NULL AND r.status <> 'FAILED')) AS by_hand,
       (SELECT count(*) FROM payments AS p WHERE p.disputed_at IS NOT NULL) AS disputed,
       (SELECT count(*) FROM payments AS p WHERE p.disputed_at IS NOT NULL
            AND p.evidence_due_at < coalesce(sqlc.narg('now')::timestamptz, now()) + interval '3 days') AS evidence_due,
       (SELECT count(*) FROM payments AS p WHERE p.warned_at > coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 day'
            AND p.disputed_at IS NULL AND p.status = 'CONFIRMED') AS warned,
       (SELECT count(*) FROM payments AS p WHERE p.check_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 minute'
            AND p.provider <> ALL (coalesce(sqlc.narg('providers')::text[], ARRAY[p.provider]))) AS unserved,
       ((SELECT count(*) FROM payments AS p WHERE p.check_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 minute'
            AND @mode::text <> '' AND p.mode <> @mode AND p.provider <> 'none')
      + (SELECT count(*) FROM refunds AS r JOIN payments AS p ON p.id = r.payment_id
        WHERE r.cause = ANY (@causes::text[]) AND r.due_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '1 minute'
            AND (r.status IN ('REQUESTED', 'PENDING', 'ACCEPTED') OR r.abort_due)
            AND @mode::text <> '' AND p.mode <> @mode AND p.provider <> 'none'))::bigint AS other_mode;
