package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/payment/internal/payment"
)

// Payments reads the stored payments and refunds, and makes the sweeper look at an order.
type Payments interface {
	// ByOrderIDs returns the provider's payments that have these order ids, by order id.
	ByOrderIDs(ctx context.Context, provider string, orders []string) (map[string]PaymentWithRefunds, error)
	// ListMovements returns up to limit captures or refunds of a provider that became known here
	// before to. They follow after, in the order of their marks.
	ListMovements(ctx context.Context, kind payment.LedgerKind, provider string, to time.Time, after Mark, limit int) ([]Movement, error)
	// OrderOfCharge returns the order of a charge by the provider's id of the charge, or
	// payment.ErrNotFound.
	OrderOfCharge(ctx context.Context, provider, chargeID string) (string, error)
	// Hint makes the service's sweeper ask the provider about an order's charge or refund.
	Hint(ctx context.Context, orderID string, refund bool) error
	// Warn records that the card's issuer takes an order's charge for fraud.
	Warn(ctx context.Context, orderID, fraudType string) error
}

// DifferenceStore stores the differences that runs find.
type DifferenceStore interface {
	// Now returns the time by the clock of the store.
	Now(ctx context.Context) (time.Time, error)
	// Unclosed returns the differences of a provider that are not CLOSED.
	Unclosed(ctx context.Context, provider string) ([]Difference, error)
	// Record stores the differences that a comparison has found, and closes those that it no longer
	// finds. A comparison that began later counts, whichever is recorded last. It returns the status
	// of each difference, and the differences that it has closed.
	Record(ctx context.Context, c Comparison) (statuses []Status, gone []Difference, err error)
}

// Mark is the position of a capture or refund in the order of their times, as a cursor.
type Mark struct {
	At time.Time
	ID uuid.UUID
}

// Movement is a capture or refund stored here; EntryID is the provider's id of it.
type Movement struct {
	Mark

	OrderID, EntryID string
}

// Comparison is the result of comparing both sides of one order, begun at the time At of the
// store's clock; Day is the day that the run compares.
type Comparison struct {
	Provider, OrderID string
	Day, At           time.Time
	Found             []Difference
}

// Source is the provider whose account is compared.
type Source struct {
	payment.Provider

	Name string
}

// Margin is how much longer than the day the provider's list is, at both ends, so that an entry
// near midnight is found although the clocks differ.
const Margin = time.Hour

// pageSize is the most captures or refunds that are read from the store at once.
const pageSize = 1000

// Finding is a difference with its status after a run.
type Finding struct {
	Difference

	Status Status
}

// String returns the finding in one line.
func (f Finding) String() string { return string(f.Status) + " " + f.Difference.String() }

// Summary counts what a run has compared and found.
type Summary struct {
	Provider string
	Day      time.Time
	// Captures counts the orders with a listed capture, Refunds the listed refunds, both without other
	// shops. Foreign counts the entries of other shops.
	Captures, Refunds, Foreign int
	// Compared counts the orders compared again. The rest count differences: WATCHED, closed, OPEN.
	Compared, Watched, Gone, Differences int
}

// String returns the counts in one line.
func (s Summary) String() string {
	return fmt.Sprintf("reconcile: day=%s provider=%s captures=%d refunds=%d foreign=%d compared=%d watched=%d gone=%d differences=%d",
		s.Day.Format(time.DateOnly), s.Provider, s.Captures, s.Refunds, s.Foreign, s.Compared, s.Watched, s.Gone, s.Differences)
}

// Run compares a provider's account with the payments, for a day (given by its midnight in UTC) and
// for all differences that are not CLOSED yet. report receives each finding. After an error about
// one order the other orders are still compared. Runs may overlap and be repeated.
func Run(ctx context.Context, payments Payments, differences DifferenceStore, source Source, day time.Time, report func(Finding) error) (Summary, error) {
	r := newRun(payments, differences, source, day, report)
	r.compare = r.compareBothSides
	err := r.readThere(ctx)
	if err == nil {
		err = r.readHere(ctx, payment.LedgerCapture, payment.LedgerRefund)
	}
	if err == nil {
		err = r.readUnclosed(ctx)
	}
	if err != nil {
		return r.summary, err
	}
	return r.compareSuspects(ctx)
}

func newRun(payments Payments, differences DifferenceStore, source Source, day time.Time, report func(Finding) error) *run {
	return &run{
		payments: payments, differences: differences, source: source, report: report, summary: Summary{Provider: source.Name, Day: day},
		captures: map[string]bool{}, refunds: map[string]bool{}, suspects: map[string][]payment.LedgerEntry{},
	}
}

// compareSuspects compares the suspected orders once more. After an error it continues with the
// next order.
func (r *run) compareSuspects(ctx context.Context) (Summary, error) {
	var err error
	for _, order := range slices.Sorted(maps.Keys(r.suspects)) {
		if failure := r.compareAgain(ctx, order); failure != nil {
			err = errors.Join(err, fmt.Errorf("order %s: %w", order, failure))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return r.summary, err
}

// run is the state of a Run: captures has the orders of listed captures, refunds the ids of listed
// refunds, and suspects the orders that may have a difference, with their listed entries. compare
// returns the differences of an order.
type run struct {
	payments    Payments
	differences DifferenceStore
	source      Source
	report      func(Finding) error
	summary     Summary

	captures, refunds map[string]bool
	suspects          map[string][]payment.LedgerEntry
	compare           func(ctx context.Context, order string) ([]Difference, error)
}

// readThere compares what the provider lists, page by page.
func (r *run) readThere(ctx context.Context) error {
	from, to := r.summary.Day.Add(-Margin), r.summary.Day.Add(24*time.Hour+Margin)
	for cursor := ""; ; {
		entries, next, err := r.list(ctx, from, to, cursor)
		if err != nil {
			return fmt.Errorf("list the account at %s: %w", r.source.Name, err)
		}
		if err := r.compareListed(ctx, entries); err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		if next == cursor {
			return fmt.Errorf("list the account at %s: the cursor %q comes again", r.source.Name, cursor)
		}
		cursor = next
	}
}

func (r *run) list(ctx context.Context, from, to time.Time, cursor string) ([]payment.LedgerEntry, string, error) {
	caps := r.source.Capabilities()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(caps.ListTime, caps.CallTime))
	defer cancel()
	return r.source.List(ctx, from, to, cursor)
}

// compareListed compares a page of the list with the payments. It reads them after the list.
func (r *run) compareListed(ctx context.Context, entries []payment.LedgerEntry) error {
	byOrder := map[string][]payment.LedgerEntry{}
	for _, e := range entries {
		if e.OrderID == "" && e.ChargeID != "" {
			var err error
			if e.OrderID, err = r.payments.OrderOfCharge(ctx, r.source.Name, e.ChargeID); err != nil && !errors.Is(err, payment.ErrNotFound) {
				return err
			}
		}
		byOrder[e.OrderID] = append(byOrder[e.OrderID], e)
	}
	known, err := r.payments.ByOrderIDs(ctx, r.source.Name, slices.Collect(maps.Keys(byOrder)))
	if err != nil {
		return err
	}
	for order, list := range byOrder {
		here, ok := known[order]
		if list, err = r.passOn(ctx, list, here.Payment); err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		if !ok && !payment.IsOrderID(order) {
			r.summary.Foreign += len(list)
			continue
		}
		for _, e := range list {
			if e.Kind == payment.LedgerCapture {
				r.captures[order] = true
			} else {
				r.refunds[e.ID] = true
			}
		}
		there := ProviderOrder{Provider: r.source.Name, OrderID: order, Entries: list}
		if !ok || len(Compare(there, &here)) > 0 {
			r.suspect(order, list...)
		}
	}
	r.summary.Captures, r.summary.Refunds = len(r.captures), len(r.refunds)
	return nil
}

// passOn records the disputes and warnings in a list of a payment's entries, of which the webhooks may
// have been lost, and returns the other entries. The payment is zero if it is unknown here.
func (r *run) passOn(ctx context.Context, list []payment.LedgerEntry, p payment.Payment) (moves []payment.LedgerEntry, err error) {
	known := p.ID != uuid.Nil
	for _, e := range list {
		switch e.Kind {
		case payment.LedgerDispute:
			if known && p.DisputedAt.IsZero() {
				err = errors.Join(err, r.payments.Hint(ctx, e.OrderID, true))
			}
		case payment.LedgerWarning:
			if known && p.WarnedAt.IsZero() {
				err = errors.Join(err, r.payments.Warn(ctx, e.OrderID, e.FraudType))
			}
		case payment.LedgerCapture, payment.LedgerRefund:
			moves = append(moves, e)
		}
	}
	return moves, err
}

// suspect adds an order to be compared again, with those entries that are not listed in it yet.
func (r *run) suspect(order string, listed ...payment.LedgerEntry) {
	list := r.suspects[order]
	for _, e := range listed {
		if !slices.ContainsFunc(list, func(x payment.LedgerEntry) bool { return x.ID == e.ID }) {
			list = append(list, e)
		}
	}
	r.suspects[order] = list
}

// readHere suspects each order with a capture or refund of the day that the provider did not list.
func (r *run) readHere(ctx context.Context, kinds ...payment.LedgerKind) error {
	from, to := r.summary.Day, r.summary.Day.Add(24*time.Hour)
	for _, kind := range kinds {
		for after := (Mark{At: from}); ; {
			page, err := r.payments.ListMovements(ctx, kind, r.source.Name, to, after, pageSize)
			if err != nil {
				return err
			}
			for _, m := range page {
				listed := r.refunds[m.EntryID]
				if kind == payment.LedgerCapture {
					listed = r.captures[m.OrderID]
				}
				if !listed {
					r.suspect(m.OrderID)
				}
				after = m.Mark
			}
			if len(page) < pageSize {
				break
			}
		}
	}
	return nil
}

// readUnclosed suspects the orders of earlier differences, with their entries: a look-up may no
// longer return an entry that the provider's account still has.
func (r *run) readUnclosed(ctx context.Context) error {
	earlier, err := r.differences.Unclosed(ctx, r.source.Name)
	for _, d := range earlier {
		r.suspect(d.OrderID, entriesOf(d)...)
	}
	return err
}

// entriesOf returns the entry of the provider's account that d is about, if a look-up may not
// return that entry.
func entriesOf(d Difference) []payment.LedgerEntry {
	e := payment.LedgerEntry{Kind: payment.LedgerCapture, OrderID: d.OrderID, ID: d.EntryID, Amount: d.Amount, Currency: d.Currency}
	switch d.Kind {
	case CaptureUnknown, CaptureOnlyThere, CaptureTwice, CaptureAmount:
	case RefundUnknown:
		e.Kind, e.State = payment.LedgerRefund, payment.ProviderDone
	default:
		return nil
	}
	return []payment.LedgerEntry{e}
}

// compareAgain reads both sides of an order once more, and records the differences that it still
// finds.
func (r *run) compareAgain(ctx context.Context, order string) error {
	at, err := r.differences.Now(ctx)
	if err != nil {
		return err
	}
	found, err := r.compare(ctx, order)
	if err != nil {
		return err
	}
	r.summary.Compared++
	statuses, gone, err := r.differences.Record(ctx, Comparison{Provider: r.source.Name, OrderID: order, Day: r.summary.Day, At: at, Found: found})
	if err != nil {
		return err
	}
	for i, status := range statuses {
		if err := r.reportStored(ctx, found[i], status); err != nil {
			return err
		}
	}
	for _, d := range gone {
		r.summary.Gone++
		if err := r.report(Finding{Difference: d, Status: Closed}); err != nil {
			return err
		}
	}
	return nil
}

// reportStored reports a difference, unless an operator has closed it. If the provider's answer may
// end an open difference, the sweeper is made to ask the provider.
func (r *run) reportStored(ctx context.Context, d Difference, status Status) error {
	switch status {
	case Closed:
		return nil
	case Watched:
		r.summary.Watched++
	case Open:
		r.summary.Differences++
	}
	if err := r.report(Finding{Difference: d, Status: status}); err != nil || status != Open || d.PaymentID == uuid.Nil {
		return err
	}
	switch d.Kind {
	case CaptureOnlyThere:
		return r.payments.Hint(ctx, d.OrderID, false)
	case RefundUnknown, RefundState:
		return r.payments.Hint(ctx, d.OrderID, true)
	default:
		return nil
	}
}

// compareBothSides compares a payment with the provider's account.
func (r *run) compareBothSides(ctx context.Context, order string) ([]Difference, error) {
	here, there, err := r.bothSides(ctx, order)
	if err != nil {
		return nil, err
	}
	return Compare(there, here), nil
}

// bothSides reads the payment of an order and asks the provider about it. It does both again if the
// payment has changed in between.
func (r *run) bothSides(ctx context.Context, order string) (here *PaymentWithRefunds, there ProviderOrder, err error) {
	there = ProviderOrder{Provider: r.source.Name, OrderID: order, Entries: r.suspects[order]}
	for range 3 {
		before, err := r.here(ctx, order)
		if err != nil || before == nil {
			return nil, there, err
		}
		entries, err := r.ask(ctx, before.Payment)
		if errors.Is(err, payment.ErrOtherCharge) && len(there.Entries) > 0 {
			return before, there, nil // a look-up does not return the listed entries
		}
		if err != nil {
			return nil, there, err
		}
		there.Entries, there.Complete = entries, true
		if here, err = r.here(ctx, order); err != nil || here != nil && here.Payment.Version == before.Payment.Version {
			return here, there, err
		}
	}
	return here, there, nil
}

func (r *run) here(ctx context.Context, order string) (*PaymentWithRefunds, error) {
	found, err := r.payments.ByOrderIDs(ctx, r.source.Name, []string{order})
	here, ok := found[order]
	if err != nil || !ok {
		return nil, err
	}
	return &here, nil
}

// ask asks the provider for all entries of a payment, and adds the captures that were listed.
func (r *run) ask(ctx context.Context, p payment.Payment) (entries []payment.LedgerEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.source.Capabilities().CallTime)
	defer cancel()
	out, err := r.source.Ask(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", r.source.Name, err)
	}
	if out.State == payment.Captured {
		entries = append(entries, payment.LedgerEntry{Kind: payment.LedgerCapture, OrderID: p.OrderID, ID: out.ChargeID, Amount: out.Amount})
	}
	for _, e := range r.suspects[p.OrderID] {
		switch i := slices.IndexFunc(entries, func(x payment.LedgerEntry) bool { return x.ID == e.ID }); {
		case e.Kind != payment.LedgerCapture:
		case i < 0:
			entries = append(entries, e)
		default:
			entries[i].Currency = e.Currency // the look-up has no currency
		}
	}
	if len(entries) == 0 {
		return nil, nil
	}
	p.ChargeID = cmp.Or(p.ChargeID, entries[0].ID)
	report, err := r.source.AskRefunds(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("ask %s for refunds: %w", r.source.Name, err)
	}
	for _, x := range report.Refunds {
		entries = append(entries, payment.LedgerEntry{
			Kind: payment.LedgerRefund, OrderID: p.OrderID, ID: x.ID, RefundID: x.RefundID, Amount: x.Amount, State: x.State,
		})
	}
	return entries, nil
}
