-- Backlog is measured for the metrics, a row for each kind. Allocations whose lease has ended are
-- due too. Unknown are only those that are not held. Counts end at 100000, so that they stay cheap
-- during a long outage of a provider.
-- name: Backlog :many
SELECT k.kind::text AS kind,
       ((SELECT p.paused_at FROM paused_providers AS p WHERE p.name = k.kind) IS NOT NULL)::bool AS paused,
       (SELECT count(*) FROM (SELECT FROM event_reward_allocation AS a
                              WHERE a.held_at IS NOT NULL AND a.reward_kind = k.kind LIMIT 100000) AS counted) AS held,
       (SELECT count(*) FROM (SELECT FROM event_reward_allocation AS a
                              WHERE a.unknown_since IS NOT NULL AND a.held_at IS NULL AND a.reward_kind = k.kind LIMIT 100000) AS counted) AS unknown,
       (SELECT count(*) FROM (SELECT FROM event_reward_allocation AS a
                              WHERE a.reward_status = 'FAILED' AND a.next_retry_at IS NULL AND a.held_at IS NULL AND a.reward_kind = k.kind
                              LIMIT 100000) AS counted) AS unpaid,
       coalesce(extract(epoch FROM t.now - (SELECT min(a.unknown_since) FROM event_reward_allocation AS a
                                            WHERE a.unknown_since IS NOT NULL AND a.held_at IS NULL AND a.reward_kind = k.kind)), 0)::float8 AS unknown_seconds,
       coalesce(extract(epoch FROM t.now - (SELECT min(a.failing_since) FROM event_reward_allocation AS a
                                            WHERE a.failing_since IS NOT NULL AND a.reward_kind = k.kind)), 0)::float8 AS failing_seconds,
       working.lapsed, working.recovered,
       coalesce(greatest(0, extract(epoch FROM t.now - least(
           (SELECT min(a.next_retry_at) FROM event_reward_allocation AS a
            WHERE a.reward_kind = k.kind AND a.reward_status = 'PENDING' AND a.next_retry_at IS NOT NULL),
           (SELECT min(a.next_retry_at) FROM event_reward_allocation AS a
            WHERE a.reward_kind = k.kind AND a.reward_status = 'FAILED' AND a.next_retry_at IS NOT NULL),
           working.first_end))), 0)::float8 AS due_seconds
FROM unnest(@kinds::text[]) AS k (kind)
CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, now()) AS now) AS t
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE a.lease_until < t.now) AS lapsed, count(*) FILTER (WHERE a.recoveries > 0) AS recovered,
           min(a.lease_until) AS first_end
    FROM event_reward_allocation AS a WHERE a.reward_status = 'PROCESSING' AND a.reward_kind = k.kind
) AS working;
