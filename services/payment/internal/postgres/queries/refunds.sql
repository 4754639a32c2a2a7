-- InsertRefund names no index of the conflict: while a row moves in the indexes, as a lease moves it, PostgreSQL may find it in another one only.
-- name: InsertRefund :execrows
INSERT INTO refunds (id, payment_id, cause, request, reason, amount, send, scope, asked_by, status, provider, provider_id, published, given_at, due_at, send_at, created_at)
VALUES (@id, @payment_id, @cause, @request, @reason, @amount, @amount, @scope, @asked_by, @status, @provider, sqlc.narg('provider_id'), @published,
        CASE WHEN sqlc.narg('provider_id')::text IS NOT NULL THEN coalesce(sqlc.narg('now')::timestamptz, now()) END,
        coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @send_after_seconds::float),
        coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @send_after_seconds::float), coalesce(sqlc.narg('now')::timestamptz, now()))
ON CONFLICT DO NOTHING;

-- name: InsertRefundItems :exec
INSERT INTO refund_items (refund_id, ticket_id, amount)
SELECT @refund_id, unnest(@ticket_ids::uuid[]), unnest(@amounts::bigint[]);

-- name: RefundItems :many
SELECT ticket_id, amount FROM refund_items WHERE refund_id = $1 ORDER BY ticket_id;

-- name: GetRefund :one
SELECT sqlc.embed(refunds) FROM refunds WHERE id = $1;

-- One user's requests are counted by one transaction at a time.
-- name: LockAsker :exec
SELECT pg_advisory_xact_lock(hashtextextended('refunds of ' || @user_id::text, 0));

-- name: AskedSince :many
SELECT created_at FROM refunds
WHERE asked_by = @user_id AND asked_by <> ''
  AND created_at > coalesce(sqlc.narg('now')::timestamptz, now()) - make_interval(secs => @seconds)
ORDER BY created_at;

-- name: FindRefund :one
SELECT sqlc.embed(refunds) FROM refunds WHERE payment_id = @payment_id AND cause = @cause AND request = @request;

-- Whether ticket has still to say what a refund by hand counts for; with acts only what operators have said that it was for.
-- name: ByHandRequested :one
SELECT EXISTS (SELECT FROM refunds WHERE payment_id = @payment_id AND holds AND cause = 'BY_HAND' AND status = 'REQUESTED'
                 AND (NOT @acts::boolean OR request LIKE 'operator:%'));

-- They stay locked: a failed refund by hand changes others.
-- name: HoldingRefunds :many
SELECT sqlc.embed(refunds) FROM refunds WHERE payment_id = @payment_id AND holds FOR UPDATE;

-- Those that count, of which there are about as many as tickets, and the latest of the others.
-- name: RefundsOfPayment :many
SELECT sqlc.embed(refunds) FROM refunds
WHERE id = ANY (ARRAY(SELECT h.id FROM refunds h WHERE h.payment_id = @payment_id AND h.holds
                      UNION ALL
                      (SELECT o.id FROM refunds o WHERE o.payment_id = @payment_id AND NOT o.holds ORDER BY o.created_at DESC LIMIT 50)))
ORDER BY created_at, id;

-- Deletes up to @max requests that ticket rejected, and that were made more than 30 days ago. They have no items. A request that is
-- repeated later is a new one.
-- name: PruneRefunds :execrows
DELETE FROM refunds
WHERE id = ANY (ARRAY(SELECT r.id FROM refunds r
                      WHERE r.status = 'REJECTED' AND r.created_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '30 days'
                      ORDER BY r.created_at LIMIT @max::int FOR UPDATE SKIP LOCKED));

-- name: ItemsOfRefunds :many
SELECT refund_id, ticket_id, amount FROM refund_items WHERE refund_id = ANY (@refund_ids::uuid[]) ORDER BY refund_id, ticket_id;

-- name: ListRefunds :many
SELECT sqlc.embed(r), sqlc.embed(p) FROM refunds AS r JOIN payments AS p ON p.id = r.payment_id
WHERE r.id < @before::uuid ORDER BY r.id DESC LIMIT @max::int;

-- name: ListRefundsByStatus :many
SELECT sqlc.embed(r), sqlc.embed(p) FROM refunds AS r JOIN payments AS p ON p.id = r.payment_id
WHERE r.status = @status AND r.id < @before::uuid ORDER BY r.id DESC LIMIT @max::int;

-- name: LockRefund :one
SELECT sqlc.embed(refunds) FROM refunds WHERE id = $1 FOR UPDATE;

-- UpdateRefund writes a decision, if the refund still has the status and lease that it was made on.
-- name: UpdateRefund :execrows
UPDATE refunds
SET status = @status, amount = @amount, send = @send, reason = @reason, gen = @gen, first_sent = @first_sent, last_sent = @last_sent,
    doubt_at = @doubt_at, refused_keys = @refused_keys, refused_at = @refused_at, kept_code = @kept_code,
    excluded = @excluded, provider_id = @provider_id, pending_reason = @pending_reason, published = @published, abort_due = @abort_due,
    due_at = coalesce(sqlc.narg('due_at')::timestamptz, due_at), attempts = @attempts, last_error = @last_error,
    given_at = CASE WHEN cause = 'BY_HAND' AND @status::text <> 'FAILED' THEN given_at
                    WHEN @status::text IN ('ACCEPTED', 'DONE') THEN coalesce(given_at, sqlc.narg('now')::timestamptz, now()) END
WHERE id = @id AND status = @seen_status AND lease = @seen_lease;

-- ClaimRefunds takes due refunds of a cause, each with a new lease that ends at due_at: those that need ticket, or those that need the
-- provider.
-- name: ClaimRefunds :many
UPDATE refunds AS r
SET lease = r.lease + 1, attempts = r.attempts + 1,
    due_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @lease_seconds)
FROM (
    SELECT due.id FROM refunds AS due
    WHERE due.cause = @cause AND due.due_at <= coalesce(sqlc.narg('now')::timestamptz, now())
      AND (due.status IN ('REQUESTED', 'PENDING', 'ACCEPTED') OR due.abort_due)
      AND (due.status = 'REQUESTED' OR due.abort_due) = @at_ticket::boolean
      AND (sqlc.narg('providers')::text[] IS NULL OR due.provider = ANY (sqlc.narg('providers')::text[]))
      AND (@mode::text = '' OR @at_ticket::boolean OR due.provider = 'none'
           OR EXISTS (SELECT FROM payments AS paid WHERE paid.id = due.payment_id AND paid.mode = @mode))
    ORDER BY due.due_at LIMIT @batch FOR UPDATE SKIP LOCKED
) AS d, payments AS p
WHERE r.id = d.id AND p.id = r.payment_id
RETURNING sqlc.embed(r), sqlc.embed(p);

-- name: PostponeRefund :exec
UPDATE refunds
SET due_at = coalesce(sqlc.narg('now')::timestamptz, now()) + make_interval(secs => @wait_seconds), last_error = @last_error
WHERE id = $1 AND lease = $2;

-- name: RefundBacklog :many
SELECT cause, count(*) AS refunds,
       greatest(coalesce(extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - min(send_at) FILTER (WHERE status <> 'ACCEPTED')), 0), 0)::float8
           AS oldest_seconds,
       greatest(coalesce(extract(epoch FROM coalesce(sqlc.narg('now')::timestamptz, now()) - min(given_at) FILTER (WHERE status = 'ACCEPTED')), 0), 0)::float8
           AS accepted_oldest_seconds
FROM refunds WHERE cause = ANY (@causes::text[]) AND (status IN ('REQUESTED', 'PENDING', 'ACCEPTED') OR abort_due)
GROUP BY cause;

-- name: CountHeldRefunds :one
SELECT count(*) FROM refunds WHERE cause = ANY (@causes::text[]) AND status = 'HELD';
