-- Claim takes due allocations of a kind under a new version and lease, and decides by the
-- database's clock whether each is paid or asked about. Each of the three groups gets a third of
-- the slots first, so that none delays the others. Whatever decides is read by the statement that
-- locks the row: the snapshot of the others may be older. The call of a lapsed row was an ASK if
-- ask_first is set, which only an outcome clears; any other may have paid. The constant limit tells
-- the planner that few rows are chosen of however many.
-- name: Claim :many
WITH lapsed AS MATERIALIZED (
    SELECT a.id, a.event_id, a.reward_status, a.retry_count, a.ask_first, a.cancel_requested_at,
           CASE WHEN a.ask_first THEN a.unknown_since ELSE coalesce(a.unknown_since, a.last_call_at) END AS unknown_since
    FROM event_reward_allocation AS a
    WHERE a.reward_status = 'PROCESSING' AND a.reward_kind = @kind AND a.recoveries + 1 < @max_recoveries::int
      AND a.lease_until < coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY a.id LIMIT @slots FOR UPDATE SKIP LOCKED
), fresh AS MATERIALIZED (
    SELECT a.id, a.event_id, a.reward_status, a.retry_count, a.ask_first, a.cancel_requested_at, a.unknown_since
    FROM event_reward_allocation AS a
    WHERE a.reward_status = 'PENDING' AND a.reward_kind = @kind AND a.next_retry_at <= coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY a.next_retry_at LIMIT @slots FOR UPDATE SKIP LOCKED
), again AS MATERIALIZED (
    SELECT a.id, a.event_id, a.reward_status, a.retry_count, a.ask_first, a.cancel_requested_at, a.unknown_since
    FROM event_reward_allocation AS a
    WHERE a.reward_status = 'FAILED' AND a.reward_kind = @kind AND a.next_retry_at <= coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY a.next_retry_at LIMIT @slots FOR UPDATE SKIP LOCKED
), picked AS (
    SELECT due.* FROM (
        SELECT *, row_number() OVER () AS n FROM lapsed
        UNION ALL SELECT *, row_number() OVER () FROM fresh
        UNION ALL SELECT *, row_number() OVER () FROM again
    ) AS due
    WHERE NOT EXISTS (SELECT FROM paused_providers AS paused WHERE paused.name = @kind)
    ORDER BY due.n, random() LIMIT @slots
), chosen AS (
    SELECT p.id, p.reward_status, p.unknown_since,
           CASE WHEN p.ask_first OR p.cancel_requested_at IS NOT NULL
                  OR (SELECT c.cancelled_at FROM campaigns AS c WHERE c.event_id = p.event_id) IS NOT NULL
                  OR (p.unknown_since IS NOT NULL AND p.retry_count >= @max_attempts::int)
                  OR p.unknown_since < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - make_interval(secs => @resend_seconds)
                THEN 'ASK' ELSE 'PAY' END AS action
    FROM (SELECT * FROM picked LIMIT 100) AS p
), claimed AS (
    UPDATE event_reward_allocation AS a
    SET reward_status = 'PROCESSING', version = a.version + 1, unknown_since = chosen.unknown_since,
        lease_until = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + make_interval(secs => @lease_seconds),
        recoveries = a.recoveries + CASE WHEN chosen.reward_status = 'PROCESSING' THEN 1 ELSE 0 END,
        last_call_at = CASE WHEN chosen.action = 'PAY' THEN coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) ELSE a.last_call_at END
    FROM chosen WHERE a.id = chosen.id AND a.id = ANY(ARRAY(SELECT o.id FROM chosen AS o))
    RETURNING a.id, a.version, a.event_id, a.member_id, a.reward_kind, a.reward_value, a.idempotency_key, a.resends, a.last_call_at, chosen.action
), calls AS (
    INSERT INTO reward_call (allocation_id, version, action, sent_at)
    SELECT id, version, action, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) FROM claimed
)
SELECT id, version, event_id, member_id, reward_kind, reward_value, idempotency_key, resends, last_call_at, action::text AS action FROM claimed;

-- Renew extends the leases of allocations that this worker still holds.
-- name: Renew :exec
WITH held AS MATERIALIZED (
    SELECT a.id, a.version, a.reward_status FROM event_reward_allocation AS a
    WHERE a.id = ANY(@ids::bigint[]) ORDER BY a.id FOR UPDATE SKIP LOCKED
)
UPDATE event_reward_allocation AS a
SET lease_until = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + make_interval(secs => @lease_seconds)
WHERE a.id = ANY(ARRAY(
    SELECT l.id FROM held AS l
    JOIN (SELECT unnest(@ids::bigint[]) AS id, unnest(@versions::bigint[]) AS version) AS h ON h.id = l.id AND h.version = l.version
    WHERE l.reward_status = 'PROCESSING'));

-- Release makes allocations due again that were claimed and not sent.
-- name: Release :execrows
WITH held AS MATERIALIZED (
    SELECT a.id, a.version, a.reward_status FROM event_reward_allocation AS a
    WHERE a.id = ANY(@ids::bigint[]) ORDER BY a.id FOR UPDATE
)
UPDATE event_reward_allocation AS a
SET reward_status = 'FAILED', version = a.version + 1, lease_until = NULL,
    next_retry_at = coalesce(sqlc.narg('now')::timestamptz, now())
WHERE a.id = ANY(ARRAY(
    SELECT l.id FROM held AS l
    JOIN (SELECT unnest(@ids::bigint[]) AS id, unnest(@versions::bigint[]) AS version) AS h ON h.id = l.id AND h.version = l.version
    WHERE l.reward_status = 'PROCESSING'));

-- HoldAbandoned stops allocations with which too many workers died: those of earlier leases, and
-- that of the lease that has ended. For unknown_since see Claim.
-- name: HoldAbandoned :many
WITH lapsed AS MATERIALIZED (
    SELECT a.id FROM event_reward_allocation AS a
    WHERE a.reward_status = 'PROCESSING' AND a.reward_kind = @kind AND a.recoveries + 1 >= @max_recoveries::int
      AND a.lease_until < coalesce(sqlc.narg('now')::timestamptz, now())
    ORDER BY a.id LIMIT 100 FOR UPDATE SKIP LOCKED
)
UPDATE event_reward_allocation AS a
SET reward_status = 'FAILED', version = a.version + 1, lease_until = NULL, next_retry_at = NULL, failing_since = NULL,
    unknown_since = CASE WHEN a.ask_first THEN a.unknown_since ELSE coalesce(a.unknown_since, a.last_call_at) END,
    held_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), error_code = @code::text, error_message = ''
WHERE a.id = ANY(ARRAY(SELECT lapsed.id FROM lapsed))
RETURNING sqlc.embed(a), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now;

-- LockForSettle locks allocations in the order of their ids, and records the outcomes of the calls.
-- name: LockForSettle :many
WITH ended AS (
    UPDATE reward_call AS c
    SET ended_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), outcome = e.outcome, error = nullif(e.error, '')
    FROM (
        SELECT unnest(@ids::bigint[]) AS id, unnest(@versions::bigint[]) AS version,
               unnest(@outcomes::text[]) AS outcome, unnest(@errors::text[]) AS error
    ) AS e
    WHERE c.allocation_id = e.id AND c.version = e.version AND c.allocation_id = ANY(@ids::bigint[])
)
SELECT sqlc.embed(a), (SELECT c.cancelled_at FROM campaigns AS c WHERE c.event_id = a.event_id) AS cancelled_at,
       (SELECT r.cancel_restock FROM campaigns AS r WHERE r.event_id = a.event_id) AS cancel_restock,
       coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM event_reward_allocation AS a
WHERE a.id = ANY(@ids::bigint[]) ORDER BY a.id FOR UPDATE OF a;

-- Settle writes decisions about locked allocations. The time 0001-01-01 stands for none.
-- name: Settle :exec
UPDATE event_reward_allocation AS a
SET reward_status = o.status, version = a.version + 1, lease_until = NULL, recoveries = 0,
    external_transaction_id = nullif(o.transaction_id, ''), processed_at = nullif(o.processed_at, '0001-01-01Z'),
    next_retry_at = nullif(o.next_retry_at, '0001-01-01Z'), retry_count = o.retry_count, resends = o.resends, ask_first = o.ask_first,
    unknown_since = nullif(o.unknown_since, '0001-01-01Z'), failing_since = nullif(o.failing_since, '0001-01-01Z'), last_call_at = nullif(o.last_call_at, '0001-01-01Z'),
    voided_at = nullif(o.voided_at, '0001-01-01Z'),
    held_at = nullif(o.held_at, '0001-01-01Z'), error_code = nullif(o.code, ''), error_message = nullif(o.message, '')
FROM (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@statuses::text[]) AS status, unnest(@transaction_ids::text[]) AS transaction_id,
           unnest(@processed_ats::timestamptz[]) AS processed_at, unnest(@next_retry_ats::timestamptz[]) AS next_retry_at,
           unnest(@retry_counts::int[]) AS retry_count, unnest(@resends::int[]) AS resends, unnest(@ask_firsts::bool[]) AS ask_first,
           unnest(@unknown_sinces::timestamptz[]) AS unknown_since, unnest(@last_call_ats::timestamptz[]) AS last_call_at, unnest(@failing_sinces::timestamptz[]) AS failing_since,
           unnest(@voided_ats::timestamptz[]) AS voided_at,
           unnest(@held_ats::timestamptz[]) AS held_at, unnest(@codes::text[]) AS code, unnest(@messages::text[]) AS message
) AS o
WHERE a.id = o.id AND a.id = ANY(@ids::bigint[]);
