-- name: AddMinutes :exec
-- Rows come sorted by key, so that two batches lock them in the same order.
INSERT INTO minutes (event_id, minute, figure, currency, amount, times)
SELECT unnest(@event_ids::text[]), unnest(@at::timestamptz[]), unnest(@figures::text[]), unnest(@currencies::text[]),
       unnest(@amounts::bigint[]), unnest(@counts::bigint[])
ON CONFLICT (event_id, minute, figure, currency) DO UPDATE SET
    amount = minutes.amount + excluded.amount,
    times  = minutes.times + excluded.times;

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

-- name: FoldMinutes :one
-- Moves up to @max rows of before a time to the beginning of their quarters of an hour, and returns how many. Replicas skip each
-- other's rows.
WITH old AS (
    DELETE FROM minutes
    WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM minutes AS m
                            WHERE m.minute < @before AND m.minute <> date_bin('15 minutes', m.minute, '2000-01-01 00:00:00+00')
                            ORDER BY m.minute LIMIT @max::int FOR UPDATE SKIP LOCKED))
    RETURNING event_id, minute, figure, currency, amount, times
), folded AS (
    INSERT INTO minutes (event_id, minute, figure, currency, amount, times)
    SELECT event_id, date_bin('15 minutes', minute, '2000-01-01 00:00:00+00') AS quarter, figure, currency, sum(amount), sum(times)
    FROM old GROUP BY event_id, quarter, figure, currency ORDER BY event_id, quarter, figure, currency
    ON CONFLICT (event_id, minute, figure, currency) DO UPDATE SET
        amount = minutes.amount + excluded.amount,
        times  = minutes.times + excluded.times
)
SELECT count(*) FROM old;

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
SELECT date_bin(make_interval(secs => @seconds), minute, @since::timestamptz)::timestamptz AS at, figure, currency,
       sum(amount)::bigint AS amount, sum(times)::bigint AS times
FROM minutes
WHERE event_id = @event_id AND minute >= @since AND minute < @until AND (cardinality(@figures::text[]) = 0 OR figure = ANY (@figures::text[]))
GROUP BY 1, 2, 3 ORDER BY 1;

-- name: CountedEvents :many
-- The events of which something was counted in a period or around it.
SELECT event_id FROM totals
GROUP BY event_id HAVING min(first_at) < @until::timestamptz AND max(last_at) >= @since::timestamptz ORDER BY event_id;

-- name: EventDays :many
-- The days of events in their time zones, which come with them: a page of those after a day and event.
WITH days AS (
    SELECT timezone(z.zone, m.minute)::date AS day, m.event_id, m.figure, m.currency, sum(m.amount)::bigint AS amount, sum(m.times)::bigint AS times
    FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@zones::text[]) AS zone) AS z JOIN minutes AS m USING (event_id)
    WHERE m.minute >= timezone(z.zone, sqlc.arg(first)::timestamp) AND m.minute < timezone(z.zone, sqlc.arg(last)::timestamp + interval '1 day')
    GROUP BY 1, 2, 3, 4
), page AS (
    SELECT day, event_id FROM days WHERE (day, event_id) > (@after_day::date, @after_event::text)
    GROUP BY day, event_id ORDER BY day, event_id LIMIT @max::int
)
SELECT d.day::date AS day, d.event_id, d.figure, d.currency, d.amount, d.times FROM days AS d JOIN page USING (day, event_id)
ORDER BY d.day, d.event_id;
