package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// sale inserts one sold, one held and one free seat, and a general admission section.
const sale = `
	INSERT INTO events (event_id, title, artist, venue, starts_at, sales_open_at, sales_close_at, seating, currency, max_per_user, time_zone)
	VALUES ('e', '', '', '', now(), now(), now() + interval '1 h', 'ASSIGNED', 'KRW', 4, 'Asia/Seoul');
	INSERT INTO sections (event_id, section, ordinal, price, capacity, seat_rows, seats_per_row, held, sold)
	VALUES ('e', 'A', 0, 70, 3, 1, 3, 0, 1), ('e', 'G', 1, 50, 10, NULL, NULL, 2, 3);
	INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, payment_id,
	                          expires_at, hold_ends_at)
	SELECT lpad(n::text, 32, '0')::uuid, 'e', 'u' || n, '', section, quantity, 0, 'KRW', status, gen_random_uuid(), now(), now()
	FROM (VALUES (1, '', 1, 'CONFIRMED'), (2, '', 1, 'HELD'), (3, 'G', 2, 'PAYING'), (4, 'G', 3, 'CONFIRMED'), (5, 'G', 1, 'EXPIRED'))
		AS v (n, section, quantity, status);
	INSERT INTO seats (event_id, seat_id, idx, status, reservation_id, held_until)
	VALUES ('e', 'A-1-1', 0, 'SOLD', lpad('1', 32, '0')::uuid, NULL), ('e', 'A-1-2', 1, 'HELD', lpad('2', 32, '0')::uuid, now()),
	       ('e', 'A-1-3', 2, 'FREE', NULL, NULL);
	INSERT INTO places (reservation_id, n, event_id, section, seat_id, price)
	SELECT lpad(r::text, 32, '0')::uuid, n, 'e', section, seat, 70
	FROM (VALUES (1, 1, 'A', 'A-1-1'), (2, 1, 'A', 'A-1-2'), (4, 1, 'G', NULL), (4, 2, 'G', NULL), (4, 3, 'G', NULL)) AS v (r, n, section, seat);
	INSERT INTO tickets (ticket_id, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, currency, status)
	SELECT gen_random_uuid(), reservation_id, n, 'e', 'u', places.section, seat_id, 70, 0, 0, 'KRW', 'VALID'
	FROM places JOIN reservations USING (reservation_id) WHERE status = 'CONFIRMED';`

// copies is SQL that issues tickets a second time. A WHERE clause that selects them may follow.
const copies = `
	INSERT INTO tickets (ticket_id, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, currency, status)
	SELECT gen_random_uuid(), reservation_id, n, event_id, 'x', section, seat_id, price, 0, 0, currency, 'VALID' FROM tickets `

// secondHold is SQL that gives a held seat to a second reservation.
const secondHold = `
	INSERT INTO places (reservation_id, n, event_id, section, seat_id, price)
	VALUES (lpad('3', 32, '0')::uuid, 1, 'e', 'A', 'A-1-2', 70)`

// The constraints that would prevent the damage are dropped: the audit must not rely on them.
func TestSalesDetectsInconsistencies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage string
		want   Sales
	}{
		"nothing":               {``, Sales{}},
		"ticket twice":          {`UPDATE tickets SET status = 'USED'; ` + copies + `WHERE seat_id IS NOT NULL`, Sales{Sold: 1, Oversold: 1}},
		"seat held twice":       {secondHold, Sales{Oversold: 1, Unbalanced: 1}},
		"sold seat is free":     {`UPDATE seats SET status = 'FREE', reservation_id = NULL WHERE seat_id = 'A-1-1'`, Sales{Unbalanced: 1}},
		"hold ended, seat not":  {`UPDATE reservations SET status = 'EXPIRED' WHERE status = 'HELD'`, Sales{Unbalanced: 1}},
		"held places forgotten": {`UPDATE sections SET held = 0 WHERE section = 'G'`, Sales{Unbalanced: 1}},
		"sold places forgotten": {`UPDATE sections SET sold = 2 WHERE section = 'G'`, Sales{Unbalanced: 1}},
		"sold seats forgotten":  {`UPDATE sections SET sold = 0 WHERE section = 'A'`, Sales{Unbalanced: 1}},
		"given back, not freed": {`UPDATE reservations SET released = 1 WHERE quantity = 3`, Sales{Unbalanced: 2}},
		"returns forgotten":     {`UPDATE seats SET status = 'RETURNED' WHERE status = 'FREE'`, Sales{Unbalanced: 1}},
		"house seats forgotten": {`UPDATE seats SET status = 'HOUSE' WHERE status = 'FREE'`, Sales{Unbalanced: 1}},
		"beyond the capacity":   {copies + `, generate_series(1, 4) WHERE section = 'G'`, Sales{Sold: 12, Oversold: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Stores{ticket: newDatabase(t, "ticket")}
			for _, sql := range []string{sale, `DROP INDEX places_one_live, tickets_one_live, tickets_one_per_seat`, c.damage} {
				_, err := s.ticket.Exec(t.Context(), sql)
				require.NoError(t, err)
			}
			got, err := s.Sales(t.Context(), "e")
			require.NoError(t, err)
			c.want.Capacity += 13
			c.want.Sold += 4
			require.Equal(t, c.want, got)
		})
	}
}
