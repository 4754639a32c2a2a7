-- The baseline of general_admission: one admission in a transaction of its own. The counter's row
-- is written by every transaction, last, so that it is locked as briefly as possible. number is
-- unique among all runs.
\set i :i + 1
\set number :base + :first + :i * :clients + :client_id
BEGIN;
INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at,
                          hold_ends_at, version, created_at)
VALUES (('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, :event, 'plain-' || :number, 'slot-' || :number, 'B',
        1, 55000, 'KRW', 'HELD', now() + interval '5 min', now() + interval '5 min', 1, now());
INSERT INTO outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
VALUES (('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, 'reservation-events',
        '00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'), (:number::bigint % 2147483647)::int,
        'RESERVATION_CREATED', 1,
        '{"type":"RESERVATION_CREATED","reservationId":"00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0')
        || '","eventId":"' || :event || '","userId":"plain-' || :number || '","slotId":"slot-' || :number
        || '","status":"HELD","seatIds":[],"section":"B","quantity":1,"amount":55000,"currency":"KRW","version":1,"occurredAt":"2026-01-02T03:04:05.678Z","expiresAt":"2026-01-02T03:09:05.678Z"}',
        '{"ce_specversion":"1.0","ce_source":"ticket","ce_type":"RESERVATION_CREATED","content-type":"application/json"}');
UPDATE sections SET held = held + 1 WHERE event_id = :event AND section = 'B' AND held + sold + house + returns + 1 <= capacity;
COMMIT;
