-- name: AddCounts :exec
-- Rows come sorted by key, so that two batches lock them in the same order.
-- now is set by tests only.
INSERT INTO event_days (event_id, day, created, confirmed, cancelled, expired, rejected, seats_sold, updated_at)
SELECT unnest(@event_ids::text[]), unnest(@days::date[]), unnest(@created::bigint[]), unnest(@confirmed::bigint[]),
       unnest(@cancelled::bigint[]), unnest(@expired::bigint[]), unnest(@rejected::bigint[]), unnest(@seats_sold::bigint[]),
       coalesce(sqlc.narg('now')::timestamptz, now())
ON CONFLICT (event_id, day) DO UPDATE SET
    created    = event_days.created + excluded.created,
    confirmed  = event_days.confirmed + excluded.confirmed,
    cancelled  = event_days.cancelled + excluded.cancelled,
    expired    = event_days.expired + excluded.expired,
    rejected   = event_days.rejected + excluded.rejected,
    seats_sold = event_days.seats_sold + excluded.seats_sold,
    updated_at = excluded.updated_at;

-- name: AddRevenue :exec
INSERT INTO revenue_days (event_id, day, currency, confirmed, refunded, payments, refunds)
SELECT unnest(@event_ids::text[]), unnest(@days::date[]), unnest(@currencies::text[]), unnest(@confirmed::bigint[]),
       unnest(@refunded::bigint[]), unnest(@payments::bigint[]), unnest(@refunds::bigint[])
ON CONFLICT (event_id, day, currency) DO UPDATE SET
    confirmed = revenue_days.confirmed + excluded.confirmed,
    refunded  = revenue_days.refunded + excluded.refunded,
    payments  = revenue_days.payments + excluded.payments,
    refunds   = revenue_days.refunds + excluded.refunds;

-- name: AddRewards :exec
INSERT INTO reward_days (event_id, day, paid, failed, cancelled, points_paid, updated_at)
SELECT unnest(@event_ids::text[]), unnest(@days::date[]), unnest(@paid::bigint[]), unnest(@failed::bigint[]),
       unnest(@cancelled::bigint[]), unnest(@points_paid::bigint[]), coalesce(sqlc.narg('now')::timestamptz, now())
ON CONFLICT (event_id, day) DO UPDATE SET
    paid        = reward_days.paid + excluded.paid,
    failed      = reward_days.failed + excluded.failed,
    cancelled   = reward_days.cancelled + excluded.cancelled,
    points_paid = reward_days.points_paid + excluded.points_paid,
    updated_at  = excluded.updated_at;

-- name: AddRequests :exec
INSERT INTO request_days (event_id, day, succeeded, rejected, failed, updated_at)
SELECT unnest(@event_ids::text[]), unnest(@days::date[]), unnest(@succeeded::bigint[]), unnest(@rejected::bigint[]),
       unnest(@failed::bigint[]), coalesce(sqlc.narg('now')::timestamptz, now())
ON CONFLICT (event_id, day) DO UPDATE SET
    succeeded  = request_days.succeeded + excluded.succeeded,
    rejected   = request_days.rejected + excluded.rejected,
    failed     = request_days.failed + excluded.failed,
    updated_at = excluded.updated_at;

-- name: NextOffset :one
SELECT coalesce((SELECT next_offset FROM consumer_offsets WHERE topic = @topic AND partition = @partition), 0)::bigint;

-- name: Offsets :many
SELECT partition, next_offset FROM consumer_offsets WHERE topic = @topic;

-- name: ClaimRedriven :many
INSERT INTO redriven_events (event_key) SELECT DISTINCT unnest(@event_keys::text[]) ORDER BY 1
ON CONFLICT DO NOTHING
RETURNING event_key;

-- name: SaveOffset :exec
INSERT INTO consumer_offsets (topic, partition, next_offset) VALUES (@topic, @partition, @next_offset)
ON CONFLICT (topic, partition) DO UPDATE SET next_offset = greatest(consumer_offsets.next_offset, excluded.next_offset);

-- name: EventCounts :one
-- An event that nothing has happened to has zeroes, updated at the epoch.
SELECT coalesce(sum(created), 0)::bigint AS created, coalesce(sum(confirmed), 0)::bigint AS confirmed,
       coalesce(sum(cancelled), 0)::bigint AS cancelled, coalesce(sum(expired), 0)::bigint AS expired,
       coalesce(sum(rejected), 0)::bigint AS rejected, coalesce(sum(seats_sold), 0)::bigint AS seats_sold,
       coalesce(max(updated_at), 'epoch')::timestamptz AS updated_at
FROM event_days WHERE event_id = @event_id;

-- name: EventRevenue :many
SELECT currency, sum(confirmed)::bigint AS confirmed, sum(refunded)::bigint AS refunded,
       sum(payments)::bigint AS payments, sum(refunds)::bigint AS refunds
FROM revenue_days WHERE event_id = @event_id
GROUP BY currency ORDER BY currency;

-- name: EventRewards :one
-- As EventCounts.
SELECT coalesce(sum(paid), 0)::bigint AS paid, coalesce(sum(failed), 0)::bigint AS failed,
       coalesce(sum(cancelled), 0)::bigint AS cancelled, coalesce(sum(points_paid), 0)::bigint AS points_paid,
       coalesce(max(updated_at), 'epoch')::timestamptz AS updated_at
FROM reward_days WHERE event_id = @event_id;

-- name: EventRequests :one
-- As EventCounts.
SELECT coalesce(sum(succeeded), 0)::bigint AS succeeded, coalesce(sum(rejected), 0)::bigint AS rejected,
       coalesce(sum(failed), 0)::bigint AS failed, coalesce(max(updated_at), 'epoch')::timestamptz AS updated_at
FROM request_days WHERE event_id = @event_id;
