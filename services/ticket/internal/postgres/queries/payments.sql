-- name: RefundsOf :many
SELECT payment_id, version
FROM refunded_payments
WHERE payment_id = ANY (@payment_ids::uuid[]);

-- name: SaveRefunds :exec
INSERT INTO refunded_payments AS r (payment_id, version)
SELECT n.payment_id, max(n.version)
FROM (SELECT unnest(@payment_ids::uuid[]) AS payment_id, unnest(@versions::bigint[]) AS version) n
GROUP BY n.payment_id
ON CONFLICT (payment_id) DO UPDATE SET version = excluded.version WHERE r.version < excluded.version;
