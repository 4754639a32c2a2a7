package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/payment/internal/payment"
)

// TicketPayments reads the stored payments for RunTickets.
type TicketPayments interface {
	Payments
	// ByIDs returns the payments with these ids, by id. Unknown ones are missing.
	ByIDs(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]PaymentWithRefunds, error)
}

// Settlements says what became of payments at the ticket service.
type Settlements interface {
	// Settled returns what became of payments; those that were not settled are left out.
	Settled(ctx context.Context, ids ...uuid.UUID) ([]payment.Settled, error)
	// ListSettled returns a page of the payments of what was sold at or after from and before until. The
	// first call has an empty cursor, each later one has next of the call before, until next is empty.
	ListSettled(ctx context.Context, from, until time.Time, cursor string) (list []payment.Settled, next string, err error)
}

// RunTickets compares the payments with the ticket service, for a day (given by its midnight in UTC) and
// for all differences that are not CLOSED yet: what was captured or given back here on that day, by one
// of the providers, and what was sold there. It is otherwise as Run; Summary.Captures counts payments.
func RunTickets(
	ctx context.Context, payments TicketPayments, differences DifferenceStore, tickets Settlements, providers []string, day time.Time, report func(Finding) error,
) (Summary, error) {
	r := &ticketRun{run: newRun(payments, differences, Source{Name: Ticket}, day, report), payments: payments, tickets: tickets}
	r.compare = r.compareTickets
	for _, provider := range providers {
		for _, kind := range []payment.LedgerKind{payment.LedgerCapture, payment.LedgerRefund} {
			if err := r.readPaid(ctx, kind, provider); err != nil {
				return r.summary, err
			}
		}
	}
	err := r.readSold(ctx)
	if err == nil {
		err = r.readUnclosed(ctx)
	}
	if err != nil {
		return r.summary, err
	}
	return r.compareSuspects(ctx)
}

// ticketRun is the state of a RunTickets. Its suspects are ids of payments.
type ticketRun struct {
	*run

	payments TicketPayments
	tickets  Settlements
}

// readPaid suspects the payments with a capture or refund of the day that differ, page by page.
func (r *ticketRun) readPaid(ctx context.Context, kind payment.LedgerKind, provider string) error {
	for after := (Mark{At: r.summary.Day}); ; {
		page, err := r.payments.ListMovements(ctx, kind, provider, r.summary.Day.Add(24*time.Hour), after, pageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		orders := make([]string, len(page))
		for i, m := range page {
			orders[i], after = m.OrderID, m.Mark
		}
		found, err := r.payments.ByOrderIDs(ctx, provider, orders)
		if err != nil {
			return err
		}
		here := make(map[uuid.UUID]PaymentWithRefunds, len(found))
		var ids []uuid.UUID
		for _, p := range found {
			here[p.Payment.ID], ids = p, append(ids, p.Payment.ID)
		}
		there, err := r.askSettled(ctx, ids)
		if err != nil {
			return err
		}
		r.suspectDifferent(ids, there, here)
		if len(page) < pageSize {
			return nil
		}
	}
}

// readSold suspects the payments of what was sold on the day that differ, page by page.
func (r *ticketRun) readSold(ctx context.Context) error {
	from, until := r.summary.Day.Add(-Margin), r.summary.Day.Add(24*time.Hour+Margin)
	for cursor := ""; ; {
		list, next, err := r.tickets.ListSettled(ctx, from, until, cursor)
		if err != nil {
			return fmt.Errorf("list what ticket has sold: %w", err)
		}
		ids, there := byPayment(list)
		here, err := r.payments.ByIDs(ctx, ids)
		if err != nil {
			return err
		}
		r.suspectDifferent(ids, there, here)
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

func (r *ticketRun) askSettled(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]payment.Settled, error) {
	list, err := r.tickets.Settled(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("ask ticket for what became of payments: %w", err)
	}
	_, there := byPayment(list)
	return there, nil
}

// byPayment returns the ids in a list, each once, and the entries by id. The ticket service names a
// payment that has paid before one that was rejected.
func byPayment(list []payment.Settled) (ids []uuid.UUID, there map[uuid.UUID]payment.Settled) {
	there = make(map[uuid.UUID]payment.Settled, len(list))
	for _, s := range list {
		if _, ok := there[s.PaymentID]; !ok {
			ids, there[s.PaymentID] = append(ids, s.PaymentID), s
		}
	}
	return ids, there
}

// suspectDifferent adds the payments that differ to be compared again.
func (r *ticketRun) suspectDifferent(ids []uuid.UUID, there map[uuid.UUID]payment.Settled, here map[uuid.UUID]PaymentWithRefunds) {
	r.summary.Captures += len(ids)
	for _, id := range ids {
		if CompareTickets(id, there[id], here[id]) != nil {
			r.suspect(id.String())
		}
	}
}

// compareTickets reads both sides of a payment once more, first the ticket service, and compares them.
func (r *ticketRun) compareTickets(ctx context.Context, key string) ([]Difference, error) {
	id, err := uuid.Parse(key)
	if err != nil {
		return nil, fmt.Errorf("payment: %w", err)
	}
	there, err := r.askSettled(ctx, []uuid.UUID{id})
	if err != nil {
		return nil, err
	}
	here, err := r.payments.ByIDs(ctx, []uuid.UUID{id})
	if err != nil {
		return nil, err
	}
	if d := CompareTickets(id, there[id], here[id]); d != nil {
		return []Difference{*d}, nil
	}
	return nil, nil
}

// CompareTickets returns the difference of one payment; nil: none. A side that does not know the payment
// is zero.
func CompareTickets(id uuid.UUID, there payment.Settled, here PaymentWithRefunds) *Difference {
	p := here.Payment
	paid := p.Status == payment.Confirmed || p.Status == payment.Refunded
	sold := there.PaymentID != uuid.Nil && there.Rejected == ""
	compensated := slices.ContainsFunc(here.Refunds, func(r payment.Refund) bool { return r.Cause == payment.Compensation })
	d := Difference{
		Provider: Ticket, OrderID: id.String(), PaymentID: p.ID, Ours: ourLeft(here, compensated), Theirs: theirSale(there),
		Amount: there.Paid, Currency: there.Currency,
	}
	switch {
	case sold && (!paid || compensated):
		d.Kind, d.Moves = TicketsUnpaid, p.Status.Unsettled()
	case sold && (there.Paid != p.Amount || there.Currency != p.Currency || there.UserID != p.UserID):
		d.Kind = TicketsAmount
	case sold && there.Kept != p.Left(here.Refunds): // a refund may be on its way
		d.Kind, d.Moves = TicketsAmount, true
	case !sold && paid && !compensated: // its rejection may be on its way
		d.Kind, d.Moves = TicketsMissing, there.Rejected != ""
	default:
		return nil
	}
	return &d
}

func ourLeft(here PaymentWithRefunds, compensated bool) string {
	p := here.Payment
	switch {
	case p.ID == uuid.Nil:
		return "no payment"
	case compensated:
		return fmt.Sprintf("%s of %s, given back as rejected", ourCapture(p), p.UserID)
	default:
		return fmt.Sprintf("%s of %s, %d left", ourCapture(p), p.UserID, p.Left(here.Refunds))
	}
}

func theirSale(there payment.Settled) string {
	switch {
	case there.PaymentID == uuid.Nil:
		return "not settled"
	case there.Rejected != "":
		return "rejected: " + there.Rejected
	default:
		return fmt.Sprintf("sold for %d %s to %s, %d kept", there.Paid, there.Currency, there.UserID, there.Kept)
	}
}
