-- The baseline of confirm, in ticket's database: the reservation is claimed for the payment, then
-- the payment's event is settled, each in a transaction of its own; last the relay's part for one
-- event. The outbox is a copy that no relay reads.
\set i :i + 1
\set number :first + :i * :clients + :client_id
SELECT r.*, now() FROM reservations r WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
SELECT seat_id, price FROM places
WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
BEGIN;
SELECT DISTINCT r.event_id, coalesce((SELECT e.series_id FROM events e WHERE e.event_id = r.event_id), ''), r.user_id
FROM reservations r WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
SELECT pg_advisory_xact_lock(hashtextextended('user' || :event || :number, 0));
SELECT rs.reservation_id FROM seats s JOIN places rs ON rs.event_id = s.event_id AND rs.seat_id = s.seat_id
WHERE rs.reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND rs.live ORDER BY s.idx FOR UPDATE OF s;
SELECT 1 FROM (SELECT DISTINCT event_id, section FROM reservations
               WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND section <> '') r
JOIN sections s ON s.event_id = r.event_id AND s.section = r.section FOR UPDATE OF s;
SELECT seat_id, price FROM places
WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
SELECT r.*, clock_timestamp() FROM reservations r
WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid FOR UPDATE;
SELECT clock_timestamp(), state, coalesce(closes_at, doors_at, starts_at - interval '1 hour'), refund_until, user_refunds, fees_until, return_within
FROM events WHERE event_id = :event;
UPDATE reservations SET status = 'PAYING', payment_id = ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid,
                        expires_at = now() + interval '10 min', version = version + 1, updated_at = now()
WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND status = 'HELD' AND version = 1;
UPDATE seats s SET held_until = now() + interval '10 min'
FROM places rs
WHERE rs.reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND rs.live
  AND s.event_id = rs.event_id AND s.seat_id = rs.seat_id AND s.reservation_id = rs.reservation_id AND s.status = 'HELD';
COMMIT;
BEGIN;
INSERT INTO processed_events (event_key, consumer_group) VALUES ('event-' || :number, 'ticket-service-group') ON CONFLICT DO NOTHING;
SELECT DISTINCT r.event_id, coalesce((SELECT e.series_id FROM events e WHERE e.event_id = r.event_id), ''), r.user_id
FROM reservations r WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
SELECT pg_advisory_xact_lock(k)
FROM unnest(ARRAY[hashtextextended('payment' || :number, 0), hashtextextended('user' || :event || :number, 0)]) AS k;
SELECT rs.reservation_id FROM seats s JOIN places rs ON rs.event_id = s.event_id AND rs.seat_id = s.seat_id
WHERE rs.reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND rs.live ORDER BY s.idx FOR UPDATE OF s;
SELECT 1 FROM (SELECT DISTINCT event_id, section FROM reservations
               WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND section <> '') r
JOIN sections s ON s.event_id = r.event_id AND s.section = r.section FOR UPDATE OF s;
SELECT seat_id, price FROM places
WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
SELECT r.*, clock_timestamp() FROM reservations r
WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid FOR UPDATE;
SELECT clock_timestamp(), state, coalesce(closes_at, doors_at, starts_at - interval '1 hour'), refund_until, user_refunds, fees_until, return_within
FROM events WHERE event_id = :event;
SELECT why FROM ended_payments WHERE payment_id = ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
UPDATE reservations SET status = 'CONFIRMED', version = version + 1, updated_at = now()
WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND status = 'PAYING' AND version = 2;
UPDATE seats s SET status = 'SOLD', held_until = NULL
FROM places rs
WHERE rs.reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid AND rs.live
  AND s.event_id = rs.event_id AND s.seat_id = rs.seat_id AND s.reservation_id = rs.reservation_id AND s.status = 'HELD';
INSERT INTO tickets (ticket_id, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, currency, payment_id, status)
SELECT ('00000000-0000-7000-b000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, reservation_id, n, event_id, 'bench-' || :number, section,
       seat_id, price, price, 0, 'KRW', ('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, 'VALID'
FROM places WHERE reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
INSERT INTO plain_outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
VALUES (('00000000-0000-7000-a000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, 'reservation-events',
        '00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'), (:number::bigint * 2654435761 % 2147483647)::int,
        'RESERVATION_CONFIRMED', 3,
        '{"type":"RESERVATION_CONFIRMED","reservationId":"00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0')
        || '","eventId":"' || :event || '","userId":"bench-' || :number || '","slotId":"slot-' || :number
        || '","status":"CONFIRMED","seatIds":["A-1-1"],"section":"","quantity":1,"amount":55000,"currency":"KRW","version":3,"occurredAt":"2026-01-02T03:04:05.678Z"}',
        '{"ce_specversion":"1.0","ce_source":"ticket","ce_type":"RESERVATION_CONFIRMED","content-type":"application/json"}');
UPDATE sections SET sold = sold + 1 WHERE event_id = :event AND section = 'A';
COMMIT;
SELECT id, topic, key, payload, headers FROM plain_outbox
WHERE event_id = ('00000000-0000-7000-a000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
DELETE FROM plain_outbox WHERE event_id = ('00000000-0000-7000-a000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid;
