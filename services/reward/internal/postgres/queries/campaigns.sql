-- name: InsertCampaign :exec
INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at, promotion_id, daily_kind, daily_value, draws_per_member, period, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, coalesce(sqlc.narg('now')::timestamptz, now()));

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

-- LockMember excludes other entries of a member in a campaign until the end of the transaction.
-- name: LockMember :exec
SELECT pg_advisory_xact_lock(hashtextextended('reward:' || @event_id::text || ':' || @member_id::text, 0));

-- name: GetEntry :one
SELECT * FROM event_entry WHERE event_id = $1 AND member_id = $2 AND period = $3 AND draw_no = $4;

-- name: GetEntryByID :one
SELECT * FROM event_entry WHERE id = $1;

-- name: CountEntries :one
SELECT count(*) FROM event_entry WHERE event_id = $1 AND member_id = $2 AND period = $3;

-- name: InsertEntry :one
INSERT INTO event_entry (event_id, member_id, period, draw_no, streak, created_at) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id;

-- name: TakePrize :execrows
UPDATE prizes SET stock = stock - 1 WHERE id = $1 AND stock > 0;

-- name: SetPrize :exec
UPDATE event_entry SET prize_id = $2 WHERE id = $1;

-- name: ReachedMilestones :many
SELECT DISTINCT milestone::int AS day FROM event_reward_allocation
WHERE event_id = $1 AND member_id = $2 AND milestone IS NOT NULL;

-- name: InsertAllocation :one
INSERT INTO event_reward_allocation (event_id, member_id, entry_id, reward_kind, reward_value, reason, milestone, idempotency_key, next_retry_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, @created_at::timestamptz, @created_at::timestamptz)
RETURNING *;

-- AllocationsOfEntries reads along the member's allocations: an index of entries would cost each
-- payout two writes.
-- name: AllocationsOfEntries :many
SELECT * FROM event_reward_allocation WHERE member_id = @member_id AND entry_id = ANY(@entry_ids::bigint[]) ORDER BY id;

-- EntriesOf lists a member's entries in a campaign, newest first.
-- name: EntriesOf :many
SELECT id, period, draw_no, streak, prize_id FROM event_entry WHERE event_id = $1 AND member_id = $2 ORDER BY period DESC, draw_no DESC LIMIT 400;
