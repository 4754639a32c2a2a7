package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/scripts/platform"
	"urr.guru/services/payment/sandbox"
)

// payment is a row of the payment service's table of payments.
type payment struct {
	ID, OrderID, PaymentType, ReferenceID, Status string
	// Open is the amount of refunds that the provider has not made: those still to come, and those
	// that were paid back in another way. ByHand is the amount that a person refunded at the provider
	// and that was not assigned to tickets yet.
	Open, ByHand int64
}

// reservation is a row of the ticket service, of a sale. Places is the number of its seats that
// were neither returned nor voided, and Tickets the number of its tickets that admit somebody.
type reservation struct {
	ID, PaymentID, Status string
	Amount                int64
	Places, Tickets       int
}

// transfer is a row of the ticket service: a ticket that passes from one user to another.
type transfer struct{ ID, PaymentID, Status string }

// membership is a row of the ticket service.
type membership struct {
	ID, PaymentID, Status string
	Price                 int64
}

// NoEvent is the event id of records that belong to no event: memberships.
const NoEvent = ""

// ticketMoney is the amount that one payment paid for tickets or a membership, less the amounts
// that were or will be refunded.
type ticketMoney struct {
	PaymentID string
	Amount    int64
}

// saleRecords are the records of one sale at the provider and in the payment and ticket services.
type saleRecords struct {
	charges      map[string]sandbox.Charge // by order id, of all sales
	payments     map[string]payment        // by id
	reservations map[string]reservation    // by id
	transfers    map[string]transfer       // by id
	memberships  map[string]membership     // by id; only for NoEvent
	money        map[string]ticketMoney    // by payment id
}

// readSaleRecords reads the records of a sale. It reads the provider's charges first: the payment
// service stores a payment before it is charged, so a charge without a payment is then a fault.
func (s *Stores) readSaleRecords(ctx context.Context, eventID string) (b saleRecords, err error) {
	if b.charges, err = s.Charges(ctx); err != nil {
		return b, err
	}
	b.payments, err = queryByID(ctx, s.payment, func(p payment) string { return p.ID }, `
		SELECT id::text, order_id, payment_type, reference_id::text, status,
		       coalesce((SELECT sum(send) FROM refunds r
		                 WHERE r.payment_id = payments.id AND r.status IN ('PENDING', 'HELD', 'RESOLVED')), 0)::bigint, hand - hand_used
		FROM payments
		WHERE event_id = $1`, eventID)
	if err != nil {
		return b, fmt.Errorf("payments of %s: %w", eventID, unavailable(postgresStore(platform.Payment), err))
	}
	b.reservations, err = queryByID(ctx, s.ticket, func(r reservation) string { return r.ID }, `
		SELECT reservation_id::text, coalesce(payment_id::text, ''), status, amount, quantity - released,
		       (SELECT count(*) FROM tickets t WHERE t.reservation_id = r.reservation_id
		                                         AND t.status IN ('VALID', 'USED', 'REFUNDING', 'TRANSFERRING'))
		FROM reservations r WHERE event_id = $1 AND origin = 'SALE'`, eventID)
	if err != nil {
		return b, fmt.Errorf("reservations of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	b.transfers, err = queryByID(ctx, s.ticket, func(t transfer) string { return t.ID }, `
		SELECT transfer_id::text, coalesce(payment_id::text, ''), status FROM transfers WHERE event_id = $1`, eventID)
	if err != nil {
		return b, fmt.Errorf("transfers of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	b.money, err = queryByID(ctx, s.ticket, func(m ticketMoney) string { return m.PaymentID }, `
		SELECT payment_id::text, sum(paid - given)::bigint FROM tickets WHERE event_id = $1 AND payment_id IS NOT NULL GROUP BY 1`, eventID)
	if err != nil {
		return b, fmt.Errorf("tickets of %s: %w", eventID, unavailable(postgresStore(platform.Ticket), err))
	}
	if eventID == NoEvent {
		err = s.readMemberships(ctx, &b)
	}
	return b, err
}

// readMemberships adds the memberships, and what was paid for them, to b.
func (s *Stores) readMemberships(ctx context.Context, b *saleRecords) (err error) {
	b.memberships, err = queryByID(ctx, s.ticket, func(m membership) string { return m.ID }, `
		SELECT membership_id::text, coalesce(payment_id::text, ''), status, price FROM memberships`)
	if err == nil {
		b.money, err = queryByID(ctx, s.ticket, func(m ticketMoney) string { return m.PaymentID }, `
			SELECT payment_id::text, price - given FROM memberships WHERE status IN ('ACTIVE', 'REFUNDING', 'ENDED')`)
	}
	if err != nil {
		err = fmt.Errorf("memberships: %w", unavailable(postgresStore(platform.Ticket), err))
	}
	return err
}

func queryByID[T any](ctx context.Context, db *pgxpool.Pool, id func(T) string, sql string, args ...any) (map[string]T, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns the error
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, err
	}
	out := make(map[string]T, len(list))
	for _, v := range list {
		out[id(v)] = v
	}
	return out, nil
}

// chargedNet returns the amount that the provider has charged for an order, less its refunds.
func (b saleRecords) chargedNet(orderID string) int64 {
	c := b.charges[orderID]
	if c.Status != sandbox.Captured {
		return 0
	}
	return c.Amount - c.RefundedAmount
}

// paidWithoutTicket describes charged payments that were not refunded and whose buyer lacks a
// ticket of the reservation, the transferred ticket, or the membership. A payment counts as charged
// if the payment service or the provider says so.
func (b saleRecords) paidWithoutTicket() []string {
	var out []string
	for _, p := range b.payments {
		chargedNet := b.chargedNet(p.OrderID)
		if chargedNet == 0 && p.Status != "CONFIRMED" {
			continue
		}
		if p.PaymentType == "transfer" {
			if t := b.transfers[p.ReferenceID]; t.Status != "COMPLETED" || t.PaymentID != p.ID {
				out = append(out, fmt.Sprintf("order %s (%s, the provider keeps %d) of transfer %s (%s, paid by %q)",
					p.OrderID, p.Status, chargedNet, p.ReferenceID, t.Status, t.PaymentID))
			}
			continue
		}
		if p.PaymentType == "membership" {
			if m := b.memberships[p.ReferenceID]; m.PaymentID != p.ID || m.Status != "ACTIVE" && m.Status != "REFUNDING" && m.Status != "ENDED" {
				out = append(out, fmt.Sprintf("order %s (%s, the provider keeps %d) of membership %s (%s, paid by %q)",
					p.OrderID, p.Status, chargedNet, p.ReferenceID, m.Status, m.PaymentID))
			}
			continue
		}
		r := b.reservations[p.ReferenceID]
		if !slices.Contains([]string{"CONFIRMED", "REFUNDED", "VOIDED"}, r.Status) || r.Tickets != r.Places || r.PaymentID != p.ID {
			out = append(out, fmt.Sprintf("order %s (%s, the provider keeps %d) of reservation %s (%s, %d of %d tickets, paid by %q)",
				p.OrderID, p.Status, chargedNet, p.ReferenceID, r.Status, r.Tickets, r.Places, r.PaymentID))
		}
	}
	return out
}

// openPayments describes the payments that have not ended.
func (b saleRecords) openPayments() []string {
	var out []string
	for _, p := range b.payments {
		if p.Status == "OPEN" || p.Status == "CONFIRMING" || p.Status == "UNKNOWN" {
			out = append(out, fmt.Sprintf("order %s (%s) of %s %s", p.OrderID, p.Status, p.PaymentType, p.ReferenceID))
		}
	}
	return out
}

// ticketWithoutPayment describes what has no confirmed payment: sold reservations, reservations
// with valid tickets, active memberships. describeUnbalancedPayments compares the amounts.
func (b saleRecords) ticketWithoutPayment() []string {
	var out []string
	for _, r := range b.reservations {
		if r.Status != "CONFIRMED" && r.Tickets == 0 {
			continue
		}
		p := b.payments[r.PaymentID]
		paid := p.ReferenceID == r.ID && p.Status == "CONFIRMED"
		if !paid || r.Status != "CONFIRMED" {
			out = append(out, fmt.Sprintf("reservation %s (%s, %d tickets, for %d) by payment %q (%s, the provider keeps %d)",
				r.ID, r.Status, r.Tickets, r.Amount, r.PaymentID, p.Status, b.chargedNet(p.OrderID)))
		}
	}
	for _, m := range b.memberships {
		p := b.payments[m.PaymentID]
		if m.Status == "ACTIVE" && (p.ReferenceID != m.ID || p.Status != "CONFIRMED") {
			out = append(out, fmt.Sprintf("membership %s (%s, for %d) by payment %q (%s, the provider keeps %d)",
				m.ID, m.Status, m.Price, m.PaymentID, p.Status, b.chargedNet(p.OrderID)))
		}
	}
	return out
}

// unknownCharges describes charges for orders that the payment service does not know. They may be
// of any sale, since a charge does not contain an event id.
func (s *Stores) unknownCharges(ctx context.Context, b saleRecords) ([]string, error) {
	var orders []string
	for id := range b.charges {
		if b.chargedNet(id) > 0 {
			orders = append(orders, id)
		}
	}
	// CollectRows returns the error of the query.
	rows, _ := s.payment.Query(ctx, `
		SELECT o FROM unnest($1::text[]) AS o WHERE NOT EXISTS (SELECT FROM payments WHERE order_id = o)`, orders)
	strays, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("orders of the ledger: %w", unavailable(postgresStore(platform.Payment), err))
	}
	for i, id := range strays {
		strays[i] = fmt.Sprintf("order %s, of which the provider keeps %d", id, b.chargedNet(id))
	}
	return strays, nil
}
