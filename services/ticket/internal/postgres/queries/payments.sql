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

-- What payments have paid for, and what of that was neither given back nor promised to be; or why they were rejected.
-- name: SettledPayments :many
SELECT t.payment_id::uuid AS payment_id, ''::text AS rejected, min(t.user_id)::text AS user_id, sum(t.paid)::bigint AS paid,
       sum(t.paid - t.given)::bigint AS kept, min(t.currency)::text AS currency
FROM tickets t WHERE t.payment_id = ANY (@payment_ids::uuid[]) GROUP BY t.payment_id
UNION ALL
SELECT m.payment_id::uuid, '', m.user_id, m.price, m.price - m.given, m.currency
FROM memberships m WHERE m.payment_id = ANY (@payment_ids::uuid[]) AND m.status IN ('ACTIVE', 'REFUNDING', 'ENDED')
UNION ALL
SELECT e.payment_id, e.why, '', 0, 0, '' FROM ended_payments e WHERE e.payment_id = ANY (@payment_ids::uuid[]);

-- The payments of tickets and memberships, in the order of their ids, which is that of their creation.
-- name: PaymentsOfSold :many
SELECT s.id::uuid AS id, s.payment_id
FROM ((SELECT t.ticket_id AS id, t.payment_id FROM tickets t
       WHERE t.ticket_id > @after::uuid AND t.ticket_id < @until::uuid ORDER BY t.ticket_id LIMIT @max::int)
      UNION ALL
      (SELECT m.membership_id, m.payment_id FROM memberships m
       WHERE m.membership_id > @after::uuid AND m.membership_id < @until::uuid ORDER BY m.membership_id LIMIT @max::int)) s
ORDER BY s.id LIMIT @max::int;
