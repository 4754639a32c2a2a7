-- ReconcileNow returns the clock by which processed_at is compared with the time of a ledger.
-- name: ReconcileNow :one
SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS clock;

-- ReconcileByKeys returns the allocations of some idempotency keys.
-- name: ReconcileByKeys :many
SELECT id, member_id, reward_kind, reward_value, reward_status, idempotency_key, resends, processed_at, unknown_since
FROM event_reward_allocation WHERE idempotency_key = ANY(@keys::text[]);

-- ReconcilePage returns the allocations after an id, in the order of their ids.
-- name: ReconcilePage :many
SELECT id, member_id, reward_kind, reward_value, reward_status, idempotency_key, resends, processed_at, unknown_since
FROM event_reward_allocation WHERE id > @after ORDER BY id LIMIT @page;
