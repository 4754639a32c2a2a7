package audit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/services/payment/sandbox"
)

// The sale "part" sold two tickets to one user, who returned one. Before that, a wrong amount was
// charged and refunded. This has no Kafka event, since nothing was sold for it.
const (
	partlyRefundedTicket = `
		INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, released, amount, currency, status, payment_id,
		                          expires_at, hold_ends_at)
		VALUES (lpad('3', 32, '0')::uuid, 'part', 'u3', '', '', 2, 1, 140, 'KRW', 'CONFIRMED', lpad('a3', 32, '0')::uuid, now(), now());
		INSERT INTO tickets (ticket_id, reservation_id, n, event_id, user_id, section, seat_id, price, paid, fee, given, currency, payment_id, status)
		SELECT lpad('c' || n, 32, '0')::uuid, lpad('3', 32, '0')::uuid, n, 'part', 'u3', 'A', 'A-1-' || n, 70, 70, 0, given, 'KRW',
		       lpad('a3', 32, '0')::uuid, status
		FROM (VALUES (1, 0, 'VALID'), (2, 70, 'REFUNDED')) AS v (n, given, status);
		INSERT INTO refund_claims (refund_id, payment_id, cause, status, begun_at, ticket_ids, amounts)
		VALUES (lpad('b3', 32, '0')::uuid, lpad('a3', 32, '0')::uuid, 'USER', 'DONE', now(), ARRAY[lpad('c2', 32, '0')::uuid], ARRAY[70]);`
	partlyRefundedPayment = `
		INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, captured, refunded, currency, provider, status,
		                      expires_at)
		SELECT lpad('a' || n, 32, '0')::uuid, 'o' || n, 'reservation', lpad('3', 32, '0')::uuid, 'u3', 'part', 140, captured, refunded, 'KRW',
		       'sandbox', status, now()
		FROM (VALUES (3, 140, 70, 'CONFIRMED'), (4, 7, 7, 'DECLINED')) AS v (n, captured, refunded, status);
		INSERT INTO refunds (id, payment_id, amount, send, cause, request, reason, status, published, provider, due_at, created_at)
		SELECT lpad('b' || n, 32, '0')::uuid, lpad('a' || n, 32, '0')::uuid, amount, amount, cause, '', '', 'DONE', published, 'sandbox', now(), now()
		FROM (VALUES (3, 70, 'USER', true), (4, 7, 'COMPENSATION', false)) AS v (n, amount, cause, published);`
	partlyRefundedStats = `
		INSERT INTO figures.totals (event_id, figure, currency, amount, times, first_at, last_at)
		SELECT 'part', figure, currency, amount, times, now(), now()
		FROM (VALUES ('created', '', 1, 1), ('confirmed', '', 1, 1), ('seats_sold', '', 1, 2),
		             ('sale', 'KRW', 140, 1), ('sale_refund', 'KRW', 70, 1)) AS v (figure, currency, amount, times);` + minutesFromTotals
)

func partlyRefundedEvents(t *testing.T, reservations, payments string) (records []*kgo.Record) {
	t.Helper()
	for topic, list := range map[string][]map[string]any{
		reservations: {
			{"type": "RESERVATION_CREATED", "quantity": 2}, {"type": "RESERVATION_CONFIRMED", "quantity": 2},
			{"type": "RESERVATION_CANCELLED", "quantity": 1, "reason": "REFUNDED", "status": "CONFIRMED"},
		},
		payments: {
			{"type": "PAYMENT_CONFIRMED", "amount": 140}, {"type": "PAYMENT_REFUNDED", "amount": 70, "cause": "USER"},
		},
	} {
		for _, body := range list {
			body["eventId"] = "part"
			records = append(records, event(t, topic, body))
		}
	}
	return records
}

func partlyRefundedLedger() map[string]*sandbox.Charge {
	return map[string]*sandbox.Charge{
		"o3": {OrderID: "o3", Amount: 140, Status: sandbox.Captured, RefundedAmount: 70},
		"o4": {OrderID: "o4", Amount: 7, Status: sandbox.Captured, RefundedAmount: 7},
	}
}

// refundFaults are different damages to the partly refunded sale, by description.
var refundFaults = map[string]inconsistency{
	"nothing": {},
	"given back twice": {
		ledger: func(l map[string]*sandbox.Charge) { l["o3"].RefundedAmount = 140 }, want: []string{unbalanced},
	},
	"given back, and not accounted for":   {ticket: `UPDATE tickets SET given = 0`, want: []string{unbalanced}},
	"let in after the refund":             {ticket: insertScan("c2", "ADMITTED", "1 s"), want: []string{opened}},
	"let in after the refund, and undone": {ticket: insertScan("c2", "UNDONE", "1 s"), want: []string{opened}},
	"let in while the refund is under way": {
		ticket: `UPDATE refund_claims SET status = 'BEGUN'; ` + insertScan("c2", "ADMITTED", "1 s"), want: []string{opened},
	},
	"let in before the refund":     {ticket: insertScan("c2", "ADMITTED", "-1 s")},
	"let in with the other ticket": {ticket: insertScan("c1", "ADMITTED", "1 s")},
	"let in after a refund that was given up": {
		ticket: `UPDATE refund_claims SET status = 'ABORTED'; ` + insertScan("c2", "ADMITTED", "1 s"),
	},
	"not let in by a door without a network": {ticket: insertScan("c2", "REFUNDED", "1 s")},
	"one place in the figures too many": {
		stats: miscount("seats_sold", 1, 0), want: []string{wrongFigures, wrongFigures},
	},
	"cancelled in the figures, though one place is left": {
		stats: `INSERT INTO figures.totals (event_id, figure, currency, amount, times, first_at, last_at) VALUES ('part', 'cancelled', '', 1, 1, now(), now());` + minutesFromTotals, want: []string{wrongFigures},
	},
	"refund missing in the figures": {
		stats: miscount("sale_refund", -70, -1), want: []string{wrongFigures, wrongFigures},
	},
}

// insertScan returns SQL that adds a scan of a ticket at the time `after` its refund was decided.
func insertScan(ticketID, result, after string) string {
	return fmt.Sprintf(`INSERT INTO scans (event_id, scan_id, ticket_id, epoch, device, user_id, result, scanned_at, recorded_at)
		SELECT 'part', gen_random_uuid(), lpad('%s', 32, '0')::uuid, 1, '', '', '%s', now(), begun_at + interval '%s' FROM refund_claims`,
		ticketID, result, after)
}

func TestFaultsOfRefunds(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	for name, c := range refundFaults {
		t.Run(name, func(t *testing.T) {
			found := s.faultsOf(t, "part", partlyRefundedLedger(), c)
			requireKinds(t, c.want, found)
		})
	}
	require.NotEmpty(t, refundFaults)
}

// In a cancelled event, all tickets must be refunded and all holds released.
func TestFaultsOfACancelledEvent(t *testing.T) {
	t.Parallel()
	const (
		ended = `INSERT INTO events (event_id, title, artist, venue, starts_at, sales_open_at, sales_close_at, seating, currency, max_per_user,
				time_zone, state)
			VALUES ('part', '', '', '', now(), now(), now() + interval '1 h', 'ASSIGNED', 'KRW', 4, 'Asia/Seoul', 'ENDED');
			UPDATE tickets SET status = 'REFUNDED', given = paid WHERE event_id = 'part';
			UPDATE reservations SET status = 'REFUNDED', released = quantity WHERE event_id = 'part';`
		refunded = `UPDATE payments SET status = 'REFUNDED', refunded = captured WHERE order_id = 'o3'`
	)
	s := newStores(t)
	for name, c := range map[string]struct {
		ticket string
		given  int64
		want   int
	}{
		"all is refunded":    {ended, 140, 0},
		"the provider keeps": {ended, 70, 1},
		"given twice":        {ended, 280, 1},
		"refunds not begun":  {ended + `UPDATE events SET state = 'CANCELLED'`, 140, 1},
		"one ticket left":    {ended + `UPDATE tickets SET status = 'USED' WHERE ticket_id = lpad('c1', 32, '0')::uuid`, 140, 1},
		"a hold left":        {ended + `UPDATE reservations SET status = 'HELD', released = 0 WHERE event_id = 'part'`, 140, 1},
		"no such event":      {``, 140, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := partlyRefundedLedger()
			ledger["o3"].RefundedAmount = c.given
			s.fill(t, ledger)
			_, err := s.ticket.Exec(t.Context(), c.ticket)
			require.NoError(t, err)
			_, err = s.payment.Exec(t.Context(), refunded)
			require.NoError(t, err)
			faults, err := s.CancelledFaults(t.Context(), "part")
			require.NoError(t, err)
			require.Len(t, faults.NotGivenBack, c.want, "%v", faults.NotGivenBack)
		})
	}
}
