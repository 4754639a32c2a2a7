-- name: AddMinutes :exec
-- Rows come sorted by key, so that two batches lock them in the same order.
INSERT INTO minutes (event_id, minute, figure, currency, amount, times)
SELECT unnest(@event_ids::text[]), unnest(@at::timestamptz[]), unnest(@figures::text[]), unnest(@currencies::text[]),
       unnest(@amounts::bigint[]), unnest(@counts::bigint[])
ON CONFLICT (event_id, minute, figure, currency) DO UPDATE SET
    amount = minutes.amount + excluded.amount,
    times  = minutes.times + excluded.times;

-- name: AddQuarters :exec
-- The same rows, added up by quarter of an hour.
INSERT INTO quarters (event_id, quarter, figure, currency, amount, times)
SELECT event_id, date_bin('15 minutes', minute, '2000-01-01 00:00:00+00') AS quarter, figure, currency, sum(amount), sum(times)
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@at::timestamptz[]) AS minute, unnest(@figures::text[]) AS figure,
             unnest(@currencies::text[]) AS currency, unnest(@amounts::bigint[]) AS amount, unnest(@counts::bigint[]) AS times) AS added
GROUP BY event_id, quarter, figure, currency ORDER BY event_id, quarter, figure, currency
ON CONFLICT (event_id, quarter, figure, currency) DO UPDATE SET
    amount = quarters.amount + excluded.amount,
    times  = quarters.times + excluded.times;

-- name: AddTotals :exec
-- The same rows, added up by all but the minute. now is set by tests only.
INSERT INTO totals (event_id, figure, currency, amount, times, first_at, last_at, updated_at)
SELECT event_id, figure, currency, sum(amount), sum(times), min(minute), max(minute), coalesce(sqlc.narg('now')::timestamptz, now())
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@at::timestamptz[]) AS minute, unnest(@figures::text[]) AS figure,
             unnest(@currencies::text[]) AS currency, unnest(@amounts::bigint[]) AS amount, unnest(@counts::bigint[]) AS times) AS added
GROUP BY event_id, figure, currency ORDER BY event_id, figure, currency
ON CONFLICT (event_id, figure, currency) DO UPDATE SET
    amount     = totals.amount + excluded.amount,
    times      = totals.times + excluded.times,
    first_at   = least(totals.first_at, excluded.first_at),
    last_at    = greatest(totals.last_at, excluded.last_at),
    updated_at = excluded.updated_at;

-- name: DeleteMinutes :execrows
-- Deletes up to @max rows of before a time. Replicas skip each other's rows.
DELETE FROM minutes
WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM minutes AS m WHERE m.minute < @before ORDER BY m.minute LIMIT @max::int FOR UPDATE SKIP LOCKED));

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

-- name: EventTotals :many
SELECT figure, currency, amount, times, updated_at FROM totals WHERE event_id = @event_id;

-- name: EventSeries :many
-- Quarters of an hour until @minutes_since, and minutes from then on.
SELECT date_bin(make_interval(secs => @seconds), minute, @since::timestamptz)::timestamptz AS at, figure, currency,
       sum(amount)::bigint AS amount, sum(times)::bigint AS times
FROM (SELECT q.quarter AS minute, q.figure, q.currency, q.amount, q.times FROM quarters AS q
      WHERE q.event_id = @event_id AND q.quarter >= @since AND q.quarter < least(@until::timestamptz, @minutes_since::timestamptz)
      UNION ALL
      SELECT m.minute, m.figure, m.currency, m.amount, m.times FROM minutes AS m
      WHERE m.event_id = @event_id AND m.minute >= greatest(@since, @minutes_since) AND m.minute < @until) AS counted
WHERE cardinality(@figures::text[]) = 0 OR figure = ANY (@figures::text[])
GROUP BY 1, 2, 3 ORDER BY 1;

-- name: CountedEvents :many
-- The events of which something was counted in a period or around it.
SELECT event_id FROM totals
GROUP BY event_id HAVING min(first_at) < @until::timestamptz AND max(last_at) >= @since::timestamptz ORDER BY event_id;

-- name: EventDays :many
-- The days of events in their time zones, which come with them: a page of those after a day and event. The page is chosen before
-- anything is added up: the days on which an event may have figures are probed in order until there are enough.
WITH active AS (
    SELECT z.event_id, z.zone, greatest(sqlc.arg(first)::date, timezone(z.zone, min(t.first_at))::date) AS first_day,
           least(sqlc.arg(last)::date, timezone(z.zone, max(t.last_at))::date) AS last_day
    FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@zones::text[]) AS zone) AS z JOIN totals AS t USING (event_id)
    GROUP BY z.event_id, z.zone
), possible AS (
    SELECT d::date AS day, event_id, timezone(zone, d) AS since, timezone(zone, d + interval '1 day') AS until
    FROM active, generate_series(first_day::timestamp, last_day::timestamp, interval '1 day') AS d
    WHERE (d::date, event_id) > (@after_day::date, @after_event::text)
    ORDER BY day, event_id
), page AS (
    SELECT p.* FROM possible AS p
    CROSS JOIN LATERAL (SELECT FROM quarters AS q WHERE q.event_id = p.event_id AND q.quarter >= p.since AND q.quarter < p.until LIMIT 1) AS counted
    ORDER BY p.day, p.event_id LIMIT @max::int
)
SELECT p.day::date AS day, p.event_id::text AS event_id, f.figure, f.currency, f.amount, f.times
FROM page AS p CROSS JOIN LATERAL (
    SELECT q.figure, q.currency, sum(q.amount)::bigint AS amount, sum(q.times)::bigint AS times FROM quarters AS q
    WHERE q.event_id = p.event_id AND q.quarter >= p.since AND q.quarter < p.until
    GROUP BY q.figure, q.currency) AS f
ORDER BY p.day, p.event_id;
