package audit

import (
	"context"
	"slices"
)

// Faults lists inconsistencies of a sale, a sentence each. There must be none once nothing of the
// sale is in progress; before that, a Kafka event that has not arrived yet can look like a fault.
type Faults struct {
	// PaidWithoutTicket are charged payments with neither ticket nor refund; StrayCharges are
	// charges unknown to payment.
	PaidWithoutTicket, StrayCharges []string
	// TicketWithoutPayment are sold reservations and valid tickets without a payment, for example
	// after a refund.
	TicketWithoutPayment []string
	// Unbalanced are payments of which the provider keeps another amount than they pay for.
	Unbalanced []string
	// OpenedAfterRefund are the ids of tickets that a door let in after their refund was decided.
	OpenedAfterRefund []string
	// NotGivenBack is what is left of an event that was cancelled.
	NotGivenBack []string
	// Unpublished are Kafka events of any sale that are still in an outbox.
	Unpublished []string
	// Miscounted are figures of stats that differ from those of the topics and the tables.
	Miscounted []string
}

func (f Faults) All() []string {
	return slices.Concat(
		prefixEach("paid without a ticket or a refund: ", f.PaidWithoutTicket),
		prefixEach("charged, and unknown to payment: ", f.StrayCharges),
		prefixEach("a ticket without a payment: ", f.TicketWithoutPayment),
		prefixEach("unbalanced: ", f.Unbalanced),
		prefixEach("opened after its refund: ticket ", f.OpenedAfterRefund),
		prefixEach("cancelled, and not given back: ", f.NotGivenBack),
		prefixEach("not published: ", f.Unpublished),
		prefixEach("miscounted: ", f.Miscounted),
	)
}

// addSale adds the faults of another sale. Those of any sale are in f already.
func (f *Faults) addSale(of Faults) {
	f.PaidWithoutTicket = append(f.PaidWithoutTicket, of.PaidWithoutTicket...)
	f.TicketWithoutPayment = append(f.TicketWithoutPayment, of.TicketWithoutPayment...)
	f.Unbalanced = append(f.Unbalanced, of.Unbalanced...)
	f.OpenedAfterRefund = append(f.OpenedAfterRefund, of.OpenedAfterRefund...)
	f.NotGivenBack = append(f.NotGivenBack, of.NotGivenBack...)
	f.Miscounted = append(f.Miscounted, of.Miscounted...)
}

func prefixEach(kind string, list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	for i := range out {
		out[i] = kind + out[i]
	}
	return out
}

// Faults compares the stores with each other and with the provider's ledger.
func (s *Stores) Faults(ctx context.Context, eventID string) (f Faults, err error) {
	b, err := s.readSaleRecords(ctx, eventID)
	if err != nil {
		return f, err
	}
	f.PaidWithoutTicket, f.TicketWithoutPayment, f.Unbalanced = b.paidWithoutTicket(), b.ticketWithoutPayment(), b.unbalanced()
	if f.StrayCharges, err = s.unknownCharges(ctx, b); err != nil {
		return f, err
	}
	if f.OpenedAfterRefund, err = s.openedAfterRefund(ctx, eventID); err != nil {
		return f, err
	}
	if f.Unpublished, err = s.unpublishedEvents(ctx); err != nil {
		return f, err
	}
	if f.Miscounted, err = s.wrongFigures(ctx, eventID); err != nil {
		return f, err
	}
	for _, d := range allDailyFigures() {
		wrong, err := d.differences(ctx, s, eventID)
		if err != nil {
			return f, err
		}
		f.Miscounted = append(f.Miscounted, wrong...)
	}
	return f, nil
}
