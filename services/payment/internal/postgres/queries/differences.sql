-- name: Clock :one
SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz;

-- name: PaymentsByOrderIDs :many
SELECT payments.* FROM payments WHERE order_id = ANY (@orders::text[]) AND provider = @provider;

-- name: PaymentsByIDs :many
SELECT payments.* FROM payments WHERE id = ANY (@payment_ids::uuid[]);

-- name: RefundsOfPayments :many
SELECT sqlc.embed(refunds) FROM refunds WHERE payment_id = ANY (@payment_ids::uuid[]) AND status <> 'REJECTED';

-- name: CapturedBetween :many
SELECT order_id, charge_id, captured_at::timestamptz AS at, id FROM payments
WHERE provider = @provider AND (@mode::text = '' OR mode = @mode) AND captured_at < @until::timestamptz AND (captured_at, id) > (@after::timestamptz, @after_id::uuid)
ORDER BY captured_at, id LIMIT @max::int;

-- name: GivenBetween :many
SELECT p.order_id, coalesce(r.provider_id, '')::text AS provider_id, r.given_at::timestamptz AS at, r.id
FROM refunds AS r JOIN payments AS p ON p.id = r.payment_id
WHERE r.provider = @provider AND (@mode::text = '' OR p.mode = @mode) AND r.given_at < @until::timestamptz AND (r.given_at, r.id) > (@after::timestamptz, @after_id::uuid) AND r.send > 0
ORDER BY r.given_at, r.id LIMIT @max::int;

-- UnservedProviders returns the providers of captured payments and of unclosed differences that are not configured. It jumps from one provider to
-- the next in the indexes, since there are few providers and many payments.
-- name: UnservedProviders :many
WITH RECURSIVE captured AS (
    (SELECT provider FROM payments WHERE captured_at IS NOT NULL AND provider > '' ORDER BY provider LIMIT 1)
    UNION ALL
    SELECT (SELECT p.provider FROM payments AS p WHERE p.captured_at IS NOT NULL AND p.provider > c.provider ORDER BY p.provider LIMIT 1)
    FROM captured AS c WHERE c.provider IS NOT NULL
)
SELECT provider::text FROM captured WHERE provider <> ALL (@configured::text[])
UNION
SELECT provider::text FROM differences WHERE status <> 'CLOSED' AND provider <> ALL (@configured::text[])
ORDER BY 1;

-- name: UnclosedDifferences :many
SELECT sqlc.embed(differences) FROM differences WHERE provider = @provider AND status <> 'CLOSED' ORDER BY order_id;

-- RecordDifference stores a difference, or that it was found again, unless a later comparison has been recorded. What moves is counted once it
-- has been watched for long. What an operator has closed stays closed while the values are the same.
-- name: RecordDifference :exec
INSERT INTO differences AS d (id, provider, kind, order_id, entry_id, payment_id, ours, theirs, amount, currency, status, day, first_seen, last_seen, compared_at)
VALUES (@id, @provider, @kind, @order_id, @entry_id, sqlc.narg('payment_id'), @ours, @theirs, @amount, @currency, @status, @day, @at, @at, @at)
ON CONFLICT (provider, kind, order_id, entry_id) DO UPDATE
SET last_seen = excluded.last_seen, compared_at = excluded.compared_at, payment_id = excluded.payment_id, ours = excluded.ours, theirs = excluded.theirs,
    amount = excluded.amount, currency = excluded.currency,
    status = CASE WHEN d.status = 'CLOSED' AND d.closed_by <> '' AND d.ours = excluded.ours AND d.theirs = excluded.theirs THEN 'CLOSED'
                  WHEN d.status = 'OPEN' OR d.status = 'WATCHED' AND d.first_seen < excluded.last_seen - make_interval(secs => @moves_seconds)
                      THEN 'OPEN'
                  ELSE excluded.status END,
    first_seen = CASE WHEN d.status = 'CLOSED' AND d.closed_by = '' THEN excluded.first_seen ELSE d.first_seen END
WHERE d.compared_at < excluded.compared_at;

-- name: StatusOfDifference :one
SELECT status FROM differences WHERE provider = $1 AND kind = $2 AND order_id = $3 AND entry_id = $4;

-- CloseGone closes the differences of an order that a comparison no longer found.
-- name: CloseGone :many
UPDATE differences SET status = 'CLOSED', closed_at = @at::timestamptz, compared_at = @at::timestamptz, closed_by = '', note = ''
WHERE provider = @provider AND order_id = @order_id AND status <> 'CLOSED' AND compared_at < @at::timestamptz
RETURNING sqlc.embed(differences);

-- name: ListDifferences :many
SELECT sqlc.embed(differences) FROM differences WHERE status = @status AND id < @before::uuid ORDER BY id DESC LIMIT @max::int;

-- name: CloseDifference :one
UPDATE differences
SET status = 'CLOSED', closed_at = coalesce(sqlc.narg('now')::timestamptz, now()), closed_by = @closed_by, note = @note
WHERE id = @id AND status = 'OPEN'
RETURNING sqlc.embed(differences);

-- name: HasDifference :one
SELECT EXISTS (SELECT 1 FROM differences WHERE id = $1);

-- name: CountDifferences :many
SELECT provider, kind, count(*) AS n FROM differences WHERE status = 'OPEN' GROUP BY provider, kind;
