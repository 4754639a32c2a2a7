-- GetAllocation returns one allocation with whether its campaign is cancelled.
-- name: GetAllocation :one
SELECT sqlc.embed(a), (SELECT c.cancelled_at FROM campaigns AS c WHERE c.event_id = a.event_id) AS cancelled_at
FROM event_reward_allocation AS a WHERE a.id = $1;

-- CallsOf lists the latest 200 calls, oldest first: while a provider is overloaded an allocation is
-- called again and again.
-- name: CallsOf :many
SELECT version, action, sent_at, ended_at, outcome, error FROM (
    SELECT * FROM reward_call WHERE allocation_id = $1 ORDER BY version DESC LIMIT 200
) AS latest
ORDER BY version;

-- ByMember lists a member's allocations, newest first, of one campaign and status or of all; the
-- page ends before the id of the cursor. Here and below, two inequalities stand for an equality:
-- the order by id alone is also that of the primary key, along which the planner would skip any
-- number of rows.
-- name: ByMember :many
SELECT * FROM event_reward_allocation
WHERE (member_id, id) < (@member_id::text, @before::bigint) AND member_id >= @member_id::text
  AND @event_id::text IN ('', event_id) AND @reward_status::text IN ('', reward_status)
ORDER BY member_id DESC, id DESC LIMIT @page;

-- ByEvent lists the allocations of a campaign and status.
-- name: ByEvent :many
SELECT * FROM event_reward_allocation
WHERE (event_id, reward_status, id) < (@event_id::text, @reward_status::text, @before::bigint)
  AND event_id >= @event_id::text AND reward_status >= @reward_status::text
ORDER BY event_id DESC, reward_status DESC, id DESC LIMIT @page;

-- name: ByStatus :many
SELECT * FROM event_reward_allocation
WHERE (reward_status, id) < (@reward_status::text, @before::bigint) AND reward_status >= @reward_status::text
ORDER BY reward_status DESC, id DESC LIMIT @page;

-- Summary counts a campaign's allocations.
-- name: Summary :many
SELECT reward_status, sum(allocations)::bigint AS allocations, sum(points)::bigint AS points, sum(held)::bigint AS held,
       sum(unknown)::bigint AS unknown
FROM campaign_totals WHERE event_id = $1 GROUP BY reward_status HAVING sum(allocations) > 0 ORDER BY reward_status;

-- Cancel cancels allocations of which nothing is under way. The others are marked: their provider
-- is asked, and they end as SUCCESS or CANCELLED. That holds for a question without a clear answer
-- too. One that is held stays so until an operator resolves it.
-- name: Cancel :many
WITH chosen AS MATERIALIZED (
    SELECT a.id, a.reward_status, a.cancel_requested_at FROM event_reward_allocation AS a
    WHERE a.id = ANY(@ids::bigint[]) ORDER BY a.id FOR UPDATE
)
UPDATE event_reward_allocation AS a
SET cancel_requested_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), restock = @restock::bool,
    reward_status = CASE WHEN a.reward_status = 'PROCESSING' OR a.unknown_since IS NOT NULL OR a.ask_first AND a.error_code = 'UNKNOWN'
                         THEN a.reward_status ELSE 'CANCELLED' END,
    next_retry_at = CASE WHEN a.reward_status = 'PROCESSING' OR a.held_at IS NOT NULL THEN a.next_retry_at
                         WHEN a.unknown_since IS NOT NULL OR a.ask_first AND a.error_code = 'UNKNOWN'
                         THEN coalesce(sqlc.narg('now')::timestamptz, now()) END,
    held_at = CASE WHEN a.unknown_since IS NOT NULL THEN a.held_at END,
    failing_since = CASE WHEN a.reward_status = 'PROCESSING' OR a.unknown_since IS NOT NULL OR a.ask_first AND a.error_code = 'UNKNOWN'
                         THEN a.failing_since END,
    version = a.version + CASE WHEN a.reward_status = 'PROCESSING' THEN 0 ELSE 1 END
WHERE a.id = ANY(ARRAY(
    SELECT c.id FROM chosen AS c WHERE c.reward_status IN ('PENDING', 'PROCESSING', 'FAILED') AND c.cancel_requested_at IS NULL))
RETURNING sqlc.embed(a), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now;

-- Restock gives the prizes of cancelled entries back.
-- name: Restock :exec
WITH back AS MATERIALIZED (
    SELECT p.id, count(*) AS n FROM event_entry AS e JOIN prizes AS p ON p.id = e.prize_id
    WHERE e.id = ANY(@entry_ids::bigint[]) AND p.stock IS NOT NULL GROUP BY p.id ORDER BY p.id
)
UPDATE prizes AS p SET stock = p.stock + back.n FROM back WHERE p.id = back.id;

-- Retry makes failed allocations due; as in Cancel, the status is no condition of the first part,
-- which would read its index. The provider is asked first: an earlier call may have paid after all.
-- name: Retry :many
WITH chosen AS MATERIALIZED (
    SELECT a.id, a.event_id, a.reward_status, a.cancel_requested_at, a.held_at, a.error_code FROM event_reward_allocation AS a
    WHERE a.id = ANY(@ids::bigint[]) ORDER BY a.id FOR UPDATE
)
UPDATE event_reward_allocation AS a
SET next_retry_at = coalesce(sqlc.narg('now')::timestamptz, now()), retry_count = 0, recoveries = 0, ask_first = a.last_call_at IS NOT NULL,
    held_at = NULL, failing_since = NULL, version = a.version + 1
WHERE a.id = ANY(ARRAY(
    SELECT f.id FROM chosen AS f
    WHERE f.reward_status = 'FAILED' AND f.cancel_requested_at IS NULL AND (f.held_at IS NULL OR f.error_code <> @unknown_too_long::text)
      AND (SELECT c.cancelled_at FROM campaigns AS c WHERE c.event_id = f.event_id) IS NULL))
RETURNING a.id;

-- MarkCampaignRetry begins a retry, or begins it again.
-- name: MarkCampaignRetry :execrows
UPDATE campaigns SET retry_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), retry_after = 0 WHERE event_id = $1;

-- LockRetrying locks a campaign whose failed allocations are to be retried.
-- name: LockRetrying :one
SELECT event_id, retry_after FROM campaigns WHERE retry_at IS NOT NULL ORDER BY event_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;

-- name: SetRetryCursor :exec
UPDATE campaigns SET retry_after = $2, retry_at = CASE WHEN @done::bool THEN NULL ELSE retry_at END WHERE event_id = $1;

-- FailedIDs lists allocations of a campaign that have failed for good, for a retry in chunks. Of
-- those that are held, it lists only the ones that are certainly unpaid because no call got through.
-- name: FailedIDs :many
SELECT id FROM event_reward_allocation
WHERE (event_id, reward_status, id) > (@event_id::text, 'FAILED', @after::bigint)
  AND event_id <= @event_id::text AND reward_status <= 'FAILED' AND next_retry_at IS NULL
  AND (held_at IS NULL OR error_code = @failing_too_long::text)
ORDER BY event_id, reward_status, id LIMIT @chunk;

-- LockHeld locks an allocation that is held.
-- name: LockHeld :one
SELECT sqlc.embed(a), (SELECT c.cancelled_at FROM campaigns AS c WHERE c.event_id = a.event_id) AS cancelled_at,
       (SELECT r.cancel_restock FROM campaigns AS r WHERE r.event_id = a.event_id) AS cancel_restock,
       coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM event_reward_allocation AS a
WHERE a.id = $1 AND a.held_at IS NOT NULL FOR UPDATE;

-- MarkCampaignCancelled: the first cancellation decides about the stock.
-- name: MarkCampaignCancelled :execrows
UPDATE campaigns SET cancelled_at = coalesce(cancelled_at, sqlc.narg('now')::timestamptz, clock_timestamp()),
    cancel_restock = CASE WHEN cancelled_at IS NULL THEN @restock::bool ELSE cancel_restock END
WHERE event_id = $1;

-- name: CancellingCampaigns :many
SELECT event_id, cancel_restock FROM campaigns WHERE cancelled_at IS NOT NULL AND cancel_done_at IS NULL ORDER BY event_id LIMIT 10;

-- UncancelledIDs lists a chunk of a cancelled campaign's allocations that are not cancelled yet.
-- name: UncancelledIDs :many
SELECT id FROM event_reward_allocation
WHERE (event_id, reward_status, id) > (@event_id::text, @reward_status::text, @after::bigint)
  AND event_id <= @event_id::text AND reward_status <= @reward_status::text AND cancel_requested_at IS NULL
ORDER BY event_id, reward_status, id LIMIT @chunk;

-- CampaignCancelDone ends the cancellation of a campaign once no transaction can run that has not
-- seen its mark: they take 8 s at most.
-- name: CampaignCancelDone :exec
UPDATE campaigns SET cancel_done_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
WHERE event_id = $1 AND cancelled_at < coalesce(sqlc.narg('now')::timestamptz, now()) - interval '10 s';

-- name: PauseProvider :exec
INSERT INTO paused_providers (name, paused_at) VALUES ($1, coalesce(sqlc.narg('now')::timestamptz, now())) ON CONFLICT DO NOTHING;

-- name: ResumeProvider :exec
DELETE FROM paused_providers WHERE name = $1;
