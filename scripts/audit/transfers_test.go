package audit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/sandbox"
)

// Additions to the consistent sale: its ticket was resold for 50, and a user bought a membership.
const (
	ticketRowsAfterTransfers = `
		UPDATE tickets SET status = 'TRANSFERRED', given = 50 WHERE event_id = 'e';
		INSERT INTO tickets (ticket_id, reservation_id, n, prev, event_id, user_id, section, seat_id, price, paid, fee, currency, payment_id, status)
		SELECT lpad('9', 32, '0')::uuid, reservation_id, n, ticket_id, event_id, 'u9', section, seat_id, price, 50, 0, currency, lpad('a9', 32, '0')::uuid, 'VALID'
		FROM tickets WHERE event_id = 'e';
		INSERT INTO transfers (transfer_id, ticket_id, event_id, seller, claim_hash, price, currency, status, deadline, buyer, payment_id, new_ticket, created_at)
		SELECT lpad('8', 32, '0')::uuid, prev, event_id, 'u1', '', 50, currency, 'COMPLETED', now(), user_id, payment_id, ticket_id, now()
		FROM tickets WHERE prev IS NOT NULL;
		INSERT INTO membership_plans (plan_id, name, price, currency, months, created_at) VALUES ('p', 'p', 10, 'KRW', 1, now()) ON CONFLICT DO NOTHING;
		INSERT INTO memberships (membership_id, user_id, plan_id, price, currency, months, status, pay_until, pay_ends_at, payment_id,
		                         activated_at, starts_at, ends_at, created_at)
		VALUES (lpad('7', 32, '0')::uuid, 'u7', 'p', 10, 'KRW', 1, 'ACTIVE', now(), now(), lpad('a7', 32, '0')::uuid, now(), now(), now() + interval '1 d', now());`
	paymentRowsAfterTransfers = `
		INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, captured, currency, provider, status, expires_at)
		SELECT lpad('a' || n, 32, '0')::uuid, 'o' || n, kind, lpad(ref, 32, '0')::uuid, 'u' || n, event, price, price, 'KRW', 'sandbox', 'CONFIRMED', now()
		FROM (VALUES (9, 'transfer', '8', 'e', 50), (7, 'membership', '7', '', 10)) AS v (n, kind, ref, event, price);`
)

func ledgerAfterTransfers() map[string]*sandbox.Charge {
	ledger := honestLedger()
	ledger["o1"].RefundedAmount = 50
	ledger["o9"] = &sandbox.Charge{OrderID: "o9", Amount: 50, Status: sandbox.Captured}
	ledger["o7"] = &sandbox.Charge{OrderID: "o7", Amount: 10, Status: sandbox.Captured}
	return ledger
}

// The audit detects wrong payments for resold tickets and for memberships. The test ignores the
// figures of the stats service, since they are those of the sale without both.
func TestFaultsOfTransfersAndMemberships(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	for name, c := range map[string]inconsistency{
		"nothing": {},
		"the seller is not paid": {
			ledger: func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 0 }, want: []string{unbalanced},
		},
		"the seller is paid twice": {
			ledger: func(l map[string]*sandbox.Charge) { l["o1"].RefundedAmount = 70 }, want: []string{unbalanced},
		},
		"paid for an offer that was cancelled": {
			ticket: `UPDATE transfers SET status = 'CANCELLED', reason = 'SELLER', new_ticket = NULL`, want: []string{unticketed},
		},
		"the buyer paid less": {
			ledger: func(l map[string]*sandbox.Charge) { l["o9"].Amount = 5 }, want: []string{unbalanced},
		},
		"paid, and no member": {
			ticket: `UPDATE memberships SET status = 'CANCELLED', payment_id = NULL, activated_at = NULL, starts_at = NULL, ends_at = NULL`,
			want:   []string{unticketed, unbalanced},
		},
		"a member who got the money back": {
			ledger: func(l map[string]*sandbox.Charge) { l["o7"].RefundedAmount = 10 }, want: []string{unbalanced},
		},
		"a member without a payment": {
			payment: `DELETE FROM payments WHERE order_id = 'o7'`, ledger: func(l map[string]*sandbox.Charge) { delete(l, "o7") }, want: []string{unpaid},
		},
		"somebody is about to buy a membership": {
			payment: `INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, captured, currency, provider, status, expires_at)
				VALUES (gen_random_uuid(), 'o6', 'membership', gen_random_uuid(), 'u', '', 10, 0, 'KRW', 'sandbox', 'OPEN', now())`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := ledgerAfterTransfers()
			if c.ledger != nil {
				c.ledger(ledger)
			}
			s.fill(t, ledger)
			for _, sql := range []string{ticketRowsAfterTransfers, c.ticket} {
				_, err := s.ticket.Exec(t.Context(), sql)
				require.NoError(t, err)
			}
			for _, sql := range []string{paymentRowsAfterTransfers, c.payment} {
				_, err := s.payment.Exec(t.Context(), sql)
				require.NoError(t, err)
			}
			faults, err := (&SaleInStores{Stores: s, EventID: "e"}).faults(t.Context())
			require.NoError(t, err)
			faults.Miscounted = nil
			requireKinds(t, c.want, faults.All())
		})
	}
}
