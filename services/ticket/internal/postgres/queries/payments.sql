-- name: EndedPayments :many
SELECT payment_id, why
FROM ended_payments
WHERE payment_id = ANY (@payment_ids::uuid[]);

-- The first reason stays.
-- name: EndPayments :exec
INSERT INTO ended_payments (payment_id, why)
SELECT unnest(@payment_ids::uuid[]), unnest(@reasons::text[])
ON CONFLICT DO NOTHING;
