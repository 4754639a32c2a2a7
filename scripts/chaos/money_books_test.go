package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/sandbox"
	ticketreplica "urr.guru/services/ticket/replicatest"
)

// checkPlaces checks the invariants of the ticket database: sold + held + house + returning + free
// = capacity, one live ticket for each sold place and none for a free one.
func (m *money) checkPlaces(ctx context.Context) {
	found, err := ticketreplica.Violations(ctx, m.ticketDB, m.clock.Now)
	if err != nil || found != "" {
		m.violate("places: %s %v", found, err)
	}
}

// checkClaims checks that no user has asked for a refund too late, and that none was claimed when
// doors may have the ticket on their lists, unless an operator has named the ticket; and that no
// ticket admits somebody who has its money back.
func (m *money) checkClaims(ctx context.Context) {
	named := texts(ctx, m.payDB, `SELECT id::text FROM refunds WHERE request LIKE 'operator:%'`)
	var late []string
	for _, until := range read[saleEnd](m, m.ticketDB, `SELECT event_id, refund_until FROM events`) {
		late = append(late, texts(ctx, m.payDB, `SELECT r.id::text FROM refunds r JOIN payments p ON p.id = r.payment_id
			WHERE r.cause = 'USER' AND p.event_id = $1 AND r.created_at >= $2`, until.EventID, until.RefundUntil)...)
	}
	for _, x := range texts(ctx, m.ticketDB, `
		SELECT c.refund_id || ' ' || c.cause FROM refund_claims c JOIN tickets t ON t.ticket_id = ANY (c.ticket_ids) JOIN events e USING (event_id)
		WHERE (c.cause = 'USER' AND c.status <> 'REFUSED' AND (c.refund_id = ANY ($2::uuid[]) OR c.begun_at >= e.closes_at))
		   OR (c.cause = 'BY_HAND' AND c.begun_at >= e.closes_at AND NOT c.refund_id = ANY ($1::uuid[]))`, named, late) {
		m.violate("too late: claim %s", x)
	}
	for _, x := range texts(ctx, m.ticketDB, `
		SELECT ticket_id || ' ' || status FROM tickets WHERE status IN ('VALID', 'USED', 'TRANSFERRING') AND given > 0`) {
		m.violate("paid back: ticket %s", x)
	}
	for _, x := range texts(ctx, m.ticketDB, `
		SELECT t.ticket_id::text FROM tickets t JOIN events e USING (event_id) JOIN refund_claims c USING (refund_id)
		JOIN seats s ON s.event_id = t.event_id AND s.seat_id = t.seat_id
		WHERE t.status = 'REFUNDED' AND c.begun_at >= e.closes_at AND s.status <> 'HOUSE'`) {
		m.violate("the seat of ticket %s is sold again, which doors may let in", x)
	}
}

// saleEnd is when users can no longer ask for refunds of an event.
type saleEnd struct {
	EventID     string
	RefundUntil time.Time
}

// unended lists the records that should have reached a final state, but have not.
func (m *money) unended(ctx context.Context) (list []string) {
	add := func(what string, found []string) {
		for _, x := range found {
			list = append(list, what+" "+x)
		}
	}
	add("payment", texts(ctx, m.payDB, `SELECT id || ' ' || status FROM payments
		WHERE status IN ('PREPARED', 'CONFIRMING', 'UNKNOWN') OR abort_due OR hinted`))
	add("refund", texts(ctx, m.payDB, `SELECT id || ' ' || cause || ' ' || status || ' ' || last_error FROM refunds
		WHERE status IN ('REQUESTED', 'PENDING', 'ACCEPTED') OR abort_due`))
	add("reservation", texts(ctx, m.ticketDB, `SELECT reservation_id::text FROM reservations WHERE status IN ('HELD', 'PAYING')`))
	add("transfer", texts(ctx, m.ticketDB, `SELECT transfer_id || ' ' || status FROM transfers WHERE status IN ('OPEN', 'AWAITING_PAYMENT')`))
	add("membership", texts(ctx, m.ticketDB, `SELECT membership_id::text FROM memberships WHERE status = 'PENDING'`))
	add("ticket of an ended event", texts(ctx, m.ticketDB, `SELECT ticket_id || ' ' || t.status FROM tickets t JOIN events e USING (event_id)
		WHERE e.state IN ('CANCELLED', 'ENDED') AND (t.status IN ('VALID', 'USED') OR (t.status IN ('TRANSFERRED', 'VOIDED') AND t.given < t.paid))`))
	held := texts(ctx, m.payDB, `SELECT id::text FROM refunds WHERE status = 'HELD' AND NOT published`)
	add("ticket", texts(ctx, m.ticketDB, `SELECT ticket_id || ' ' || status FROM tickets
		WHERE status = 'TRANSFERRING' OR (status = 'REFUNDING' AND NOT refund_id = ANY ($1::uuid[]))`, held))
	add("refund of membership", texts(ctx, m.ticketDB, `SELECT membership_id::text FROM memberships
		WHERE status = 'REFUNDING' AND NOT refund_id = ANY ($1::uuid[])`, held))
	add("claim", texts(ctx, m.ticketDB, `SELECT refund_id || ' ' || cause FROM refund_claims
		WHERE status = 'BEGUN' AND NOT refund_id = ANY ($1::uuid[])`, held))
	if n := m.topics.unhandled(); n > 0 {
		list = append(list, fmt.Sprint("records ", n))
	}
	return list
}

// paymentBook is a payment in the payment database.
type paymentBook struct {
	ID, OrderID, Status                              string
	Amount, Captured, Refunded, Hand, HandUsed, Owed int64
	Compensations                                    int64
}

// ticketBook is a payment in the ticket database: of tickets, or of a membership.
type ticketBook struct {
	ID         string
	Paid, Left int64
}

func read[T any](m *money, db *pgxpool.Pool, sql string) []T {
	m.t.Helper()
	rows, _ := db.Query(context.Background(), sql)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	require.NoError(m.t, err)
	return list
}

// checkBooks checks each payment, to the smallest unit: the provider has kept the value of the
// tickets and what is still owed, less the refunds by hand that are not assigned to tickets.
func (m *money) checkBooks() {
	tickets := make(map[string]ticketBook)
	for _, t := range read[ticketBook](m, m.ticketDB, `
		SELECT payment_id::text, sum(paid)::bigint, sum(paid - given)::bigint FROM tickets WHERE payment_id IS NOT NULL GROUP BY 1
		UNION ALL SELECT payment_id::text, price, price - given FROM memberships WHERE status IN ('ACTIVE', 'REFUNDING', 'ENDED')`) {
		tickets[t.ID] = t
	}
	byHand := make(map[string]int64)
	_, given := m.provider.ledger.All()
	for _, r := range given {
		if r.Reference == "" && r.Status != sandbox.RefundFailed {
			byHand[r.OrderID] += r.Amount
		}
	}
	for _, p := range read[paymentBook](m, m.payDB, `
		SELECT p.id::text, p.order_id, p.status, p.amount, p.captured, p.refunded, p.hand, p.hand_used,
		       coalesce(sum(r.send) FILTER (WHERE r.status IN ('PENDING', 'HELD', 'RESOLVED')), 0)::bigint,
		       count(*) FILTER (WHERE r.cause = 'COMPENSATION')
		FROM payments p LEFT JOIN refunds r ON r.payment_id = p.id GROUP BY p.id`) {
		charge, _ := m.provider.ledger.Get(p.OrderID)
		captured := int64(0)
		if charge.Status == sandbox.Captured {
			captured = charge.Amount
		}
		t := tickets[p.ID]
		if left, want := captured-charge.RefundedAmount, t.Left+p.Owed-(p.Hand-p.HandUsed); left != want {
			m.violate("formula of %+v: the provider has %d, tickets are worth %d", p, left, t.Left)
		}
		if p.Captured != captured || p.Refunded != charge.RefundedAmount || p.Hand != byHand[p.OrderID] {
			m.violate("ledger of %+v: %+v, by hand %d", p, charge, byHand[p.OrderID])
		}
		if p.Captured > 0 && (t.Paid != p.Amount || p.Compensations != 0) && (t.Paid != 0 || p.Compensations != 1) {
			m.violate("%+v has paid for tickets of %d", p, t.Paid)
		}
	}
	m.checkLedger(given)
	m.checkSellers()
}

// saleBook is a completed transfer for money, or the refund that pays its seller.
type saleBook struct {
	Transfer, SellerPayment, Ticket string
	Price                           int64
}

// checkSellers checks that each seller is paid once, by a refund of the seller's own payment.
func (m *money) checkSellers() {
	sold := read[saleBook](m, m.ticketDB, `
		SELECT f.transfer_id::text, t.payment_id::text, t.ticket_id::text, f.price
		FROM transfers f JOIN tickets t USING (ticket_id) WHERE f.status = 'COMPLETED' AND f.price > 0 ORDER BY 1`)
	paid := read[saleBook](m, m.payDB, `
		SELECT r.request, r.payment_id::text, i.ticket_id::text, i.amount
		FROM refunds r JOIN refund_items i ON i.refund_id = r.id WHERE r.cause = 'TRANSFER' ORDER BY 1`)
	if !slices.Equal(sold, paid) {
		m.violate("sellers are paid %+v for %+v", paid, sold)
	}
}

// refundBook is a refund in the payment database.
type refundBook struct {
	ID, Status, ProviderID string
	Send                   int64
}

// checkLedger compares the payment database's refunds with the ledger: none was made twice, and the
// database has all.
func (m *money) checkLedger(given []sandbox.Refund) {
	made := make(map[string][]sandbox.Refund)
	for _, r := range given {
		if r.Reference != "" && r.Status != sandbox.RefundFailed {
			made[r.Reference] = append(made[r.Reference], r)
		}
	}
	for _, r := range read[refundBook](m, m.payDB, `
		SELECT id::text, status, coalesce(provider_id, ''), send FROM refunds WHERE cause <> 'BY_HAND'`) {
		at := made[r.ID]
		delete(made, r.ID)
		switch {
		case len(at) > 1:
			m.violate("refund %+v was made twice: %+v", r, at)
		case r.Status == "DONE" && r.Send > 0:
			if len(at) != 1 || at[0].Amount != r.Send || at[0].RefundID != r.ProviderID {
				m.violate("refund %+v is not in the ledger: %+v", r, at)
			}
		case len(at) != 0:
			m.violate("refund %+v was made: %+v", r, at)
		}
	}
	for id := range made {
		m.violate("the ledger has refund %s, which payment does not know", id)
	}
}

// rejectedKinds counts purchases that were paid for and rejected, by what was bought.
const rejectedKinds = `SELECT 'rejected ' || payment_type FROM payments p
	WHERE EXISTS (SELECT FROM refunds r WHERE r.payment_id = p.id AND r.cause = 'COMPENSATION')`

// countEnds counts the final states of all records.
func (m *money) countEnds(ctx context.Context) {
	for sql, db := range map[string]*pgxpool.Pool{
		`SELECT 'refund ' || cause || ' ' || status FROM refunds`:          m.payDB,
		`SELECT 'payment ' || status || ' ' || decline_code FROM payments`: m.payDB,
		rejectedKinds: m.payDB,
		`SELECT 'hand used' FROM payments WHERE hand_used > 0`:              m.payDB,
		`SELECT 'goodwill' FROM payments WHERE goodwill > 0`:                m.payDB,
		`SELECT 'act ' || status FROM refunds WHERE request ~ '^operator:'`: m.payDB,
		`SELECT 'new key' FROM refunds WHERE gen > 1`:                       m.payDB,
		`SELECT 'ticket ' || status FROM tickets`:                           m.ticketDB,
		`SELECT 'claim ' || status FROM refund_claims`:                      m.ticketDB,
		`SELECT 'reservation ' || status FROM reservations`:                 m.ticketDB,
		`SELECT 'transfer ' || status || ' ' || reason FROM transfers`:      m.ticketDB,
		`SELECT 'membership ' || status FROM memberships`:                   m.ticketDB,
		`SELECT 'ended ' || why FROM ended_payments`:                        m.ticketDB,
		`SELECT 'house seat' FROM seats WHERE status = 'HOUSE'`:             m.ticketDB,
		`SELECT 'house place' FROM sections WHERE house > 0 AND NOT seated`: m.ticketDB,
	} {
		for _, x := range texts(ctx, db, sql) {
			m.count(x)
		}
	}
}

// report returns the violations, and how often each thing has happened.
func (m *money) report() (found, counts string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.violations, "\n"), fmt.Sprint(m.counts)
}
