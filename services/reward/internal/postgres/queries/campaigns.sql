-- name: InsertCampaign :exec
INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at, promotion_id, daily_kind, daily_value, draws_per_member, period, expected_visitors,
                       expected_within, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, coalesce(sqlc.narg('now')::timestamptz, now()));

-- name: ExpectedOpenings :many
SELECT event_id, opens_at, expected_visitors, expected_within
FROM campaigns
WHERE expected_visitors > 0 AND cancelled_at IS NULL AND opens_at <= @until::timestamptz AND opens_at > @since::timestamptz
ORDER BY opens_at DESC
LIMIT 1000;

-- name: InsertMilestone :exec
INSERT INTO milestones (event_id, day, kind, value, every) VALUES ($1, $2, $3, $4, $5);

-- name: InsertPrize :exec
INSERT INTO prizes (event_id, name, kind, value, weight, stock, initial) VALUES ($1, $2, $3, $4, $5, $6, $6);

-- name: GetCampaign :one
SELECT sqlc.embed(c), coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM campaigns AS c WHERE c.event_id = $1;

-- name: Milestones :many
SELECT * FROM milestones WHERE event_id = $1 ORDER BY day;

-- name: Prizes :many
SELECT * FROM prizes WHERE event_id = $1 ORDER BY id;

-- LockMembers excludes other entries of the members in a campaign until the end of the transaction. The
-- order of the locks is the same for all.
-- name: LockMembers :exec
SELECT pg_advisory_xact_lock(k.lock) FROM (
    SELECT hashtextextended('reward:' || @event_id::text || ':' || m.member_id, 0) AS lock
    FROM (SELECT unnest(@member_ids::text[]) AS member_id) AS m ORDER BY 1
) AS k;

-- FirstEntries reads the first entries of members in periods. LATERAL and LIMIT make each lookup use the
-- index, also with a plan that was cached while the table was empty.
-- name: FirstEntries :many
SELECT e.id, e.member_id, e.period, e.draw_no, e.streak, e.prize_id, e.created_at
FROM (SELECT unnest(@member_ids::text[]) AS member_id, unnest(@periods::text[]) AS period) AS w
CROSS JOIN LATERAL (
    SELECT * FROM event_entry AS f WHERE f.event_id = @event_id AND f.member_id = w.member_id AND f.period = w.period AND f.draw_no = 1 LIMIT 1
) AS e;

-- name: EntriesByID :many
SELECT id, member_id, period, draw_no, streak, prize_id, created_at FROM event_entry WHERE id = ANY(@ids::bigint[]);

-- CountEntries counts the entries of members in periods.
-- name: CountEntries :many
SELECT w.member_id::text AS member_id, (
    SELECT count(*) FROM event_entry AS e WHERE e.event_id = @event_id AND e.member_id = w.member_id AND e.period = w.period) AS made
FROM (SELECT unnest(@member_ids::text[]) AS member_id, unnest(@periods::text[]) AS period) AS w;

-- name: InsertEntries :many
INSERT INTO event_entry (event_id, member_id, period, draw_no, streak, prize_id, created_at)
SELECT @event_id, w.member_id, w.period, w.draw_no, w.streak, nullif(w.prize_id, 0), @created_at
FROM (
    SELECT unnest(@member_ids::text[]) AS member_id, unnest(@periods::text[]) AS period, unnest(@draw_nos::int[]) AS draw_no,
           unnest(@streaks::int[]) AS streak, unnest(@prize_ids::bigint[]) AS prize_id
) AS w
RETURNING id, member_id;

-- LockPrizes locks the prizes of which there is a limited number left.
-- name: LockPrizes :many
SELECT id, stock FROM prizes WHERE event_id = $1 AND stock > 0 ORDER BY id FOR NO KEY UPDATE;

-- TakePrizes takes prizes from the locked stock.
-- name: TakePrizes :execrows
UPDATE prizes AS p SET stock = p.stock - w.n
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@counts::bigint[]) AS n) AS w
WHERE p.id = w.id AND p.id = ANY(@ids::bigint[]) AND p.stock >= w.n;

-- name: ReachedMilestones :many
SELECT m.member_id::text AS member_id, reached.milestone::int AS day
FROM (SELECT unnest(@member_ids::text[]) AS member_id) AS m
CROSS JOIN LATERAL (
    SELECT DISTINCT a.milestone FROM event_reward_allocation AS a
    WHERE a.event_id = @event_id AND a.member_id = m.member_id AND a.milestone IS NOT NULL
) AS reached;

-- InsertAllocations returns the rows in the order of their ids, which is that of the arrays.
-- name: InsertAllocations :many
WITH inserted AS (
    INSERT INTO event_reward_allocation
        (event_id, member_id, entry_id, reward_kind, reward_value, reason, milestone, idempotency_key, next_retry_at, created_at)
    SELECT @event_id, w.member_id, w.entry_id, w.kind, w.value, w.reason, nullif(w.milestone, 0), w.key, @created_at::timestamptz, @created_at::timestamptz
    FROM (
        SELECT unnest(@member_ids::text[]) AS member_id, unnest(@entry_ids::bigint[]) AS entry_id, unnest(@kinds::text[]) AS kind,
               unnest(@values::bigint[]) AS value, unnest(@reasons::text[]) AS reason, unnest(@milestones::int[]) AS milestone,
               unnest(@keys::text[]) AS key
    ) AS w
    RETURNING id, entry_id
)
SELECT id, entry_id FROM inserted ORDER BY id;

-- AllocationsByKeys reads the allocations of entries by their keys: an index of entries would cost each
-- payout two writes, and a member's allocations may be many.
-- name: AllocationsByKeys :many
SELECT * FROM event_reward_allocation WHERE idempotency_key = ANY(@keys::text[]) ORDER BY id;

-- EntriesOf lists a member's entries in a campaign, newest first.
-- name: EntriesOf :many
SELECT id, period, draw_no, streak, prize_id FROM event_entry WHERE event_id = $1 AND member_id = $2 ORDER BY period DESC, draw_no DESC LIMIT 400;
