-- The calls that providers allow are taken in the order of time: each call makes the next one free a moment later. A replica takes some calls of
-- the next quarter of a second, and sends each at its time; what it does not send is lost.

-- name: EnsureBudgets :exec
INSERT INTO provider_budgets (provider, endpoint)
SELECT @provider, unnest(@endpoints::text[])
ON CONFLICT DO NOTHING;

-- TakeShare takes up to the wanted calls of an endpoint, and of the account. The limits are calls per second; 0: none. No row: EnsureBudgets is to
-- be called first.
-- name: TakeShare :one
WITH taken AS MATERIALIZED (
    SELECT p.endpoint, p.free_at, least(1, p.part + extract(epoch FROM clock_timestamp() - p.slowed_at)::float8 / 60) AS present
    FROM provider_budgets AS p WHERE p.provider = sqlc.arg('provider') AND p.endpoint = ANY (ARRAY['', sqlc.arg('endpoint')::text]) ORDER BY p.endpoint FOR UPDATE
), rates AS MATERIALIZED (
    SELECT clock_timestamp() AS at, greatest(clock_timestamp(), one.free_at) AS one_at, greatest(clock_timestamp(), every.free_at) AS every_at,
           coalesce(1 / nullif(sqlc.arg('per_endpoint')::float8 * one.present, 0), 0) AS one_gap, coalesce(1 / nullif(sqlc.arg('per_second')::float8 * every.present, 0), 0) AS every_gap
    FROM taken AS one, taken AS every WHERE one.endpoint = sqlc.arg('endpoint')::text AND every.endpoint = ''
), granted AS MATERIALIZED (
    SELECT at, one_gap, every_gap, every_at, greatest(one_at, every_at) AS begins, greatest(0, least(sqlc.arg('wanted')::integer,
        floor(coalesce(extract(epoch FROM at + interval '250 milliseconds' - one_at)::float8 / nullif(one_gap, 0), sqlc.arg('wanted'))) + 1,
        floor(coalesce(extract(epoch FROM at + interval '250 milliseconds' - every_at)::float8 / nullif(every_gap, 0), sqlc.arg('wanted'))) + 1))::integer AS calls
    FROM rates
), moved AS (
    UPDATE provider_budgets AS b
    SET free_at = CASE WHEN g.calls = 0 THEN b.free_at
                       WHEN b.endpoint = '' THEN g.every_at + make_interval(secs => g.calls * g.every_gap)
                       ELSE g.begins + make_interval(secs => g.calls * g.one_gap) END
    FROM granted AS g WHERE b.provider = sqlc.arg('provider') AND b.endpoint = ANY (ARRAY['', sqlc.arg('endpoint')::text])
)
SELECT calls::integer AS calls, greatest(one_gap, every_gap)::float8 AS gap_seconds,
       (extract(epoch FROM begins - at) - CASE WHEN calls = 0 THEN 0.25 ELSE 0 END)::float8 AS wait_seconds
FROM granted;

-- SlowBudget lowers what may be sent by a third, and stops for half a second; once for all calls that were refused together.
-- name: SlowBudget :exec
UPDATE provider_budgets
SET part = greatest(0.1, least(1, part + extract(epoch FROM clock_timestamp() - slowed_at) / 60) * 2 / 3),
    slowed_at = clock_timestamp(), free_at = greatest(free_at, clock_timestamp() + interval '500 milliseconds')
WHERE provider = @provider AND endpoint = @endpoint AND (part = 1 OR slowed_at < clock_timestamp() - interval '1 second');
