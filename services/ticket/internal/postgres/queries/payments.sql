-- name: EndedPayments :many
SELECT payment_id, why
FROM ended_payments
WHERE payment_id = ANY (@payment_ids::uuid[]);

-- name: PaymentLimits :one
SELECT providers FROM payment_limits;

-- Most calls change nothing, and write nothing.
-- name: PutPaymentLimits :exec
INSERT INTO payment_limits (providers)
SELECT @providers::jsonb WHERE NOT EXISTS (SELECT FROM payment_limits WHERE providers = @providers::jsonb)
ON CONFLICT (only_one) DO UPDATE SET providers = excluded.providers;

-- The first reason stays.
-- name: EndPayments :exec
INSERT INTO ended_payments (payment_id, why)
SELECT unnest(@payment_ids::uuid[]), unnest(@reasons::text[])
ON CONFLICT DO NOTHING;
