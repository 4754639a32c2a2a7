-- The baseline of seat_hold: one hold in a transaction of its own, with the same checks, locks and
-- rows. Every hold has a user and a seat of its own; number is unique among all runs.
\set i :i + 1
\set place :first + :i * :clients + :client_id
\set row :place / :per_row + 1
\set seat :place % :per_row + 1
\set number :base + :place
BEGIN;
SELECT pg_advisory_xact_lock(hashtextextended('user' || :event || :number, 0));
SELECT e.seating, e.state, e.sales_open_at, e.sales_close_at, e.max_per_user, e.currency, e.hold_seconds, now(),
       (SELECT coalesce(sum(r.quantity - r.released), 0) FROM reservations r
        WHERE r.event_id = e.event_id AND r.user_id = 'plain-' || :number AND r.status IN ('HELD', 'PAYING', 'CONFIRMED')
          AND (r.status = 'CONFIRMED' OR r.expires_at > now()))
FROM events e WHERE e.event_id = :event;
SELECT s.status, s.held_until, (SELECT price FROM sections c WHERE c.event_id = s.event_id AND c.section = 'B') FROM seats s
WHERE s.event_id = :event AND s.seat_id = 'B-' || :row || '-' || :seat FOR UPDATE;
UPDATE seats SET status = 'HELD', reservation_id = ('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid,
                 held_until = now() + interval '5 min'
WHERE event_id = :event AND seat_id = 'B-' || :row || '-' || :seat;
INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at,
                          hold_ends_at, version, created_at)
VALUES (('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, :event, 'plain-' || :number, 'slot-' || :number, '',
        1, 55000, 'KRW', 'HELD', now() + interval '5 min', now() + interval '5 min', 1, now());
INSERT INTO places (reservation_id, n, event_id, section, seat_id, price)
VALUES (('00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, 1, :event, 'B', 'B-' || :row || '-' || :seat, 55000);
INSERT INTO outbox (event_id, topic, key, key_hash, type, entity_version, payload, headers)
VALUES (('00000000-0000-7000-9000-' || lpad(to_hex(:number::bigint), 12, '0'))::uuid, 'reservation-events',
        '00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0'), (:number::bigint % 2147483647)::int,
        'RESERVATION_CREATED', 1,
        '{"type":"RESERVATION_CREATED","reservationId":"00000000-0000-7000-8000-' || lpad(to_hex(:number::bigint), 12, '0')
        || '","eventId":"' || :event || '","userId":"plain-' || :number || '","slotId":"slot-' || :number || '","status":"HELD","seatIds":["B-'
        || :row || '-' || :seat || '"],"section":"","quantity":1,"amount":55000,"currency":"KRW","version":1,"occurredAt":"2026-01-02T03:04:05.678Z","expiresAt":"2026-01-02T03:09:05.678Z"}',
        '{"ce_specversion":"1.0","ce_source":"ticket","ce_type":"RESERVATION_CREATED","content-type":"application/json"}');
COMMIT;
