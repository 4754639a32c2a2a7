-- LockPromotionShared is taken to store a winner, LockPromotion to create a campaign: they exclude
-- each other, so that each winner meets each campaign.
-- name: LockPromotionShared :exec
SELECT pg_advisory_xact_lock_shared(hashtextextended('winners:' || @promotion_id::text, 0));

-- name: LockPromotion :exec
SELECT pg_advisory_xact_lock(hashtextextended('winners:' || @promotion_id::text, 0));

-- InsertWinners keeps announced winners of a promotion; a repeated announcement changes nothing.
-- name: InsertWinners :exec
INSERT INTO winners (request_id, promotion_id, member_id, announced_at)
SELECT unnest(@request_ids::text[]), @promotion_id, unnest(@member_ids::text[]), unnest(@announced_ats::timestamptz[])
ON CONFLICT DO NOTHING;

-- name: CampaignsOfPromotion :many
SELECT * FROM campaigns WHERE promotion_id = @promotion_id::text AND cancelled_at IS NULL ORDER BY event_id;

-- LockUnfinishedWinners locks a campaign whose promotion had winners before it was created.
-- name: LockUnfinishedWinners :one
SELECT * FROM campaigns
WHERE kind = 'REQUEST_WINNERS' AND winners_done_at IS NULL AND cancelled_at IS NULL
ORDER BY event_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;

-- name: WinnersAfter :many
SELECT request_id, member_id FROM winners WHERE promotion_id = @promotion_id AND request_id > @after ORDER BY request_id LIMIT @chunk;

-- name: SetWinnersCursor :exec
UPDATE campaigns SET winners_after = $2,
    winners_done_at = CASE WHEN @done::bool THEN coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) END
WHERE event_id = $1;

-- RewardWinners makes an entry and an allocation for each winner that has none.
-- name: RewardWinners :execrows
WITH entries AS (
    INSERT INTO event_entry (event_id, member_id, period, created_at)
    SELECT @event_id, w.member_id, w.request_id, coalesce(sqlc.narg('now')::timestamptz, now())
    FROM (SELECT unnest(@request_ids::text[]) AS request_id, unnest(@member_ids::text[]) AS member_id) AS w
    ORDER BY w.request_id -- as all transactions that may insert the same entries
    ON CONFLICT DO NOTHING
    RETURNING id, member_id, period
)
INSERT INTO event_reward_allocation (event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key, next_retry_at, created_at)
SELECT @event_id, e.member_id, e.id, @kind, @value, 'WINNER', @key_prefix::text || e.member_id || '-' || e.period,
       coalesce(sqlc.narg('now')::timestamptz, now()), coalesce(sqlc.narg('now')::timestamptz, now())
FROM entries AS e;
