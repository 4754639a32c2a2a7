package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/services/payment/sandbox"
)

// The sale "part" sold two tickets to one user, who gave one back. A charge of a wrong amount was
// given back before: nobody was told, since it was never a sale.
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
		INSERT INTO figures.event_days (event_id, day, created, confirmed, seats_sold) VALUES ('part', now(), 1, 1, 1);
		INSERT INTO figures.revenue_days (event_id, day, currency, confirmed, refunded, payments, refunds)
		VALUES ('part', now(), 'KRW', 140, 70, 1, 1);`
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

// refundFaults are changes to the partly refunded sale, with the kinds of faults that each must show.
var refundFaults = map[string]inconsistency{
	"nothing": {},
	"given back twice": {
		ledger: func(l map[string]*sandbox.Charge) { l["o3"].RefundedAmount = 140 }, want: []string{unbalanced},
	},
	"given back, and not accounted for": {ticket: `UPDATE tickets SET given = 0`, want: []string{unbalanced}},
	"one place in the figures too many": {
		stats: `UPDATE figures.event_days SET seats_sold = 2`, want: []string{wrongFigures, wrongFigures},
	},
	"cancelled in the figures, though one place is left": {
		stats: `UPDATE figures.event_days SET cancelled = 1`, want: []string{wrongFigures},
	},
	"refund missing in the figures": {
		stats: `UPDATE figures.revenue_days SET refunded = 0, refunds = 0`, want: []string{wrongFigures, wrongFigures},
	},
}

func TestFaultsOfRefunds(t *testing.T) {
	t.Parallel()
	s := stores(t)
	for name, c := range refundFaults {
		t.Run(name, func(t *testing.T) {
			found := s.faultsOf(t, "part", partlyRefundedLedger(), c)
			requireKinds(t, c.want, found)
		})
	}
	require.NotEmpty(t, refundFaults)
}
