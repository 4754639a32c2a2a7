-- The baseline of confirm, in payment's database: what payment writes before and after the charge,
-- and the relay's part for one event. The outbox is a copy that no relay reads.
\set i :i + 1
\set number :first + :i * :clients + :client_id
SELECT id FROM payments WHERE order_id = 'order-' || :number;
BEGIN;
SELECT p.*, clock_timestamp() FROM payments p WHERE id = ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid FOR UPDATE;
SELECT pg_try_advisory_xact_lock(hashtextextended('key' || :number, 0));
SELECT fingerprint, answer, running_until FROM idempotency_keys
WHERE user_id = 'bench-' || :number AND route = 'confirm' AND key = 'key' AND created_at > now() - interval '24 hours';
UPDATE payments
SET status = 'CONFIRMING', payment_key = 'ok-' || :number, confirming_at = now(), charged_at = now(), attempt = 1,
    extend_at = now() + interval '1 min', check_at = now() + interval '18 s', checks = 0,
    lease = lease + 1, version = version + 1
WHERE id = ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND version = 1 AND status = 'PREPARED';
INSERT INTO payment_timeline (payment_id, at, status, note)
VALUES (('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, clock_timestamp(), 'CONFIRMING', 'charging');
INSERT INTO idempotency_keys (user_id, route, key, fingerprint, subject, running_until, created_at)
VALUES ('bench-' || :number, 'confirm', 'key', sha256(('order-' || :number)::bytea),
        ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, now() + interval '1 min', now())
ON CONFLICT (user_id, route, key) DO UPDATE SET fingerprint = excluded.fingerprint;
COMMIT;
BEGIN;
SELECT p.*, clock_timestamp() FROM payments p WHERE id = ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid FOR UPDATE;
UPDATE payments SET status = 'CONFIRMED', charge_id = 'charge-' || :number, captured = 55000, check_at = NULL, version = version + 1
WHERE id = ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND version = 2 AND status = 'CONFIRMING';
INSERT INTO payment_timeline (payment_id, at, status, note)
VALUES (('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, clock_timestamp(), 'CONFIRMED', 'charged');
INSERT INTO plain_outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
VALUES (('00000000-0000-7000-a000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, 'payment-events', 'order-' || :number,
        (:number::bigint * 2654435761 % 2147483647)::int, 'PAYMENT_CONFIRMED', 3,
        '{"type":"PAYMENT_CONFIRMED","paymentType":"reservation","paymentId":"00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0')
        || '","orderId":"order-' || :number || '","sagaId":"00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0')
        || '","referenceId":"00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0') || '","userId":"bench-' || :number
        || '","eventId":"bench-confirm","amount":55000,"currency":"KRW","version":3,"occurredAt":"2026-01-02T03:04:05.678Z"}',
        '{"ce_specversion":"1.0","ce_source":"payment","ce_type":"PAYMENT_CONFIRMED","content-type":"application/json"}');
UPDATE idempotency_keys SET answer = '{"Status":"CONFIRMED","PaymentID":"00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0') || '"}'
WHERE subject = ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND answer IS NULL;
COMMIT;
SELECT id, topic, key, payload, headers FROM plain_outbox
WHERE event_id = ('00000000-0000-7000-a000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
DELETE FROM plain_outbox WHERE event_id = ('00000000-0000-7000-a000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
